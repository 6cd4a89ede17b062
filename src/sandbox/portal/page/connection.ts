import { createContext } from 'preact';
import type { PictureView, StateView, UpdateFrame } from '../../api-types.ts';
import { ask, Refused } from './api.ts';
import { changed, type Model, modelOf, withConnection, withLostConnection, withPicture } from './model.ts';

export type Status = 'connecting' | 'live' | 'lost';

export interface Snapshot {
  readonly model: Model | undefined;
  readonly status: Status;
  /** Why there is nothing to show. */
  readonly problem: string | undefined;
}

/** The part of the picture that is shown. */
export interface View {
  readonly windowMs: number;
  readonly search: string;
  readonly owner: string;
}

const RETRY_MS = 2000;

/** How often the picture is fetched again while frames alone cannot keep it complete. */
const REFRESH_MS = 5000;

/**
 * Keeps a model of the sandbox up to date: fetches the state once and follows the event stream from there. After a lost
 * connection the browser resumes the stream where it ended; only if that is impossible it fetches the state again. A
 * hidden page closes its stream, because a browser allows six connections to a host for all its pages together.
 */
export class Connection {
  #snapshot: Snapshot = { model: undefined, status: 'connecting', problem: undefined };
  #source: EventSource | undefined;
  #loading = false;
  #view: View = { windowMs: 60_000, search: '', owner: '' };
  #incomplete = false;
  readonly #readers = new Set<() => void>();

  constructor() {
    setInterval(() => {
      if (this.#incomplete && this.#source) void this.#refresh();
    }, REFRESH_MS);
  }

  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  subscribe(reader: () => void): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  /** Call it when the page becomes visible or hidden. */
  show(visible: boolean): void {
    if (visible && !this.#source) void this.load();
    if (!visible) this.#release();
  }

  /** Shows another window, search or owner. */
  look(view: View): void {
    const { windowMs, search, owner } = this.#view;
    if (view.windowMs === windowMs && view.search === search && view.owner === owner) return;
    this.#view = view;
    if (this.#snapshot.model) void this.#refresh();
  }

  /** Loads everything, unless that is in progress. */
  async load(): Promise<void> {
    if (this.#loading) return;
    this.#loading = true;
    this.#release();
    try {
      const view = this.#view;
      const state = await ask<StateView>('GET', `/api/state?${queryOf(view)}`);
      this.#show({ model: modelOf(state, performance.now()), problem: undefined });
      this.#incomplete = isIncomplete(state.picture);
      this.#follow(state.lastEventId);
      if (view !== this.#view) void this.#refresh();
    } catch (error) {
      this.#lose(error instanceof Refused ? error.message : undefined);
      setTimeout(() => void this.load(), RETRY_MS);
    } finally {
      this.#loading = false;
    }
  }

  async #refresh(): Promise<void> {
    const view = this.#view;
    try {
      const picture = await ask<PictureView>('GET', `/api/picture?${queryOf(view)}`);
      const { model } = this.#snapshot;
      if (!model || view !== this.#view) return;
      this.#incomplete = isIncomplete(picture);
      this.#show({ model: withPicture(model, picture) });
    } catch {
      this.#incomplete = true;
    }
  }

  #release(): void {
    this.#source?.close();
    this.#source = undefined;
  }

  #follow(lastEventId: string): void {
    if (document.visibilityState === 'hidden') return;
    const source = new EventSource(`/api/events?lastEventId=${encodeURIComponent(lastEventId)}`);
    this.#source = source;
    source.addEventListener('open', () => {
      const { model } = this.#snapshot;
      this.#show({ status: 'live', model: model && withConnection(model) });
    });
    source.addEventListener('update', (event: MessageEvent<string>) => this.#take(JSON.parse(event.data)));
    source.addEventListener('error', () => {
      this.#lose();
      // The browser retries by itself, except where the answer was not a stream.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => void this.load(), RETRY_MS);
    });
  }

  #take(frame: UpdateFrame): void {
    const { model } = this.#snapshot;
    if (frame.stale) void this.load();
    else if (model) {
      if (frame.requestsLeftOut || frame.ownersChanged) this.#incomplete = true;
      if (frame.ownersChanged) void this.#refresh();
      this.#show({ model: changed(model, frame, performance.now()) });
    }
  }

  #lose(problem?: string): void {
    const { model } = this.#snapshot;
    this.#show({ status: 'lost', problem, model: model && withLostConnection(model, performance.now()) });
  }

  #show(changes: Partial<Snapshot>): void {
    this.#snapshot = { ...this.#snapshot, ...changes };
    for (const reader of this.#readers) reader();
  }
}

const isIncomplete = ({ lanes, matching }: PictureView): boolean =>
  lanes.filter(({ id }) => id !== '').length < matching;

function queryOf({ windowMs, search, owner }: View): string {
  const query = { windowMs: `${windowMs}`, ...(search && { search }), ...(owner && { owner }) };
  return new URLSearchParams(query).toString();
}

export const ConnectionContext = createContext<Connection | undefined>(undefined);
