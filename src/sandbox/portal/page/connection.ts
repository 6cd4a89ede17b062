import { createContext } from 'preact';
import type { PictureView, UpdateFrame } from '../../control/shapes.ts';
import { ask, Refused } from './api.ts';
import { changed, combined, type Model, modelOf, withLostConnection, withPicture } from './model.ts';

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
  /** The end of a window of the past. */
  readonly untilMs?: number | undefined;
  readonly search?: string;
  readonly owner?: string;
  /** Ids of requests of the past, with commas between them. */
  readonly requests?: string | undefined;
}

const RETRY_MS = 2000;

/** How often the picture is fetched again while frames alone cannot keep it complete. */
const REFRESH_MS = 5000;

/** How often the page takes the frames that have arrived; less often where that takes more than a tenth of the time. */
const TAKE_MS = 250;
const TAKE_SHARE = 0.1;

/** If more characters of frames wait, the page was frozen: it drops them, and opens the stream again. */
const MAX_WAITING = 10_000_000;

/**
 * Keeps a model of the sandbox up to date: follows the event stream, whose first event holds the state. After a lost
 * connection the browser opens the stream again. A hidden page closes its stream, because a browser allows six
 * connections to a host for all its pages together.
 */
export class Connection {
  #snapshot: Snapshot = { model: undefined, status: 'connecting', problem: undefined };
  #source: EventSource | undefined;
  #view: View = { windowMs: 60_000 };
  #incomplete = false;
  /** Frames that have arrived, unread, and when by the page's own clock. */
  #waiting: { text: string; atMs: number }[] = [];
  #waitingLength = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #readers = new Set<(snapshot: Snapshot) => void>();

  constructor() {
    setInterval(() => {
      if (this.#incomplete && this.#source) void this.#refresh();
    }, REFRESH_MS);
  }

  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  /** Calls the reader now, too: what it has shown so far may be out of date. */
  subscribe(reader: (snapshot: Snapshot) => void): () => void {
    this.#readers.add(reader);
    reader(this.#snapshot);
    return () => this.#readers.delete(reader);
  }

  /** Call it when the page becomes visible or hidden. */
  show(visible: boolean): void {
    if (!visible) this.#release();
    else if (!this.#source) this.#follow();
  }

  /** Shows another window, search or owner. */
  look(view: View): void {
    if (queryOf(view) === queryOf(this.#view)) return;
    this.#view = view;
    if (this.#snapshot.model) void this.#refresh();
  }

  async #refresh(): Promise<void> {
    const view = this.#view;
    try {
      const picture = await ask<PictureView>('GET', `/api/picture?${queryOf(view)}`);
      const { model } = this.#snapshot;
      if (!model || view !== this.#view) return;
      this.#incomplete = view.untilMs === undefined && isIncomplete(picture);
      this.#show({ model: withPicture(model, picture) });
    } catch {
      this.#incomplete = true;
    }
  }

  #release(): void {
    this.#source?.close();
    this.#source = undefined;
    this.#drop();
  }

  #follow(): void {
    this.#release();
    const source = new EventSource(`/api/events?${queryOf(presentOf(this.#view))}`);
    this.#source = source;
    source.addEventListener('open', () => this.#show({ status: 'live', problem: undefined }));
    source.addEventListener('update', ({ data }: MessageEvent<string>) => {
      this.#waitingLength += data.length;
      if (this.#waitingLength > MAX_WAITING) this.#waiting = [];
      else this.#waiting.push({ text: data, atMs: performance.now() });
      this.#timer ??= setTimeout(() => this.#take(), 0);
    });
    source.addEventListener('error', () => {
      this.#lose();
      // The browser retries by itself, except where the answer was not a stream.
      if (source.readyState === EventSource.CLOSED) void this.#retry(source);
    });
  }

  /** Shows why the stream was refused, and tries again. */
  async #retry(source: EventSource): Promise<void> {
    const problem = await ask('GET', '/api/clock').then(
      () => undefined,
      (error: unknown) => (error instanceof Refused ? error.message : undefined),
    );
    this.#lose(problem);
    setTimeout(() => {
      if (this.#source === source) this.#follow();
    }, RETRY_MS);
  }

  /** Takes all frames that have arrived as one change, and then rests. */
  #take(): void {
    const startMs = performance.now();
    const [frames, length] = [this.#waiting, this.#waitingLength];
    this.#drop();
    if (length > MAX_WAITING) this.#follow();
    else if (frames.length > 0) this.#apply(combined(frames.map(({ text }) => JSON.parse(text))), frames.at(-1)?.atMs);
    const rest = () => {
      const restMs = Math.max(TAKE_MS, (performance.now() - startMs) / TAKE_SHARE);
      this.#timer = setTimeout(() => {
        if (this.#waitingLength > 0) this.#take();
        else this.#timer = undefined;
      }, restMs);
    };
    // The rendering follows at once and is part of the time.
    this.#timer = setTimeout(rest);
  }

  #drop(): void {
    this.#waiting = [];
    this.#waitingLength = 0;
  }

  #apply(frame: UpdateFrame, atMs = performance.now()): void {
    const before = this.#snapshot.model;
    const model = frame.state ? modelOf(frame.state, atMs, before) : before;
    if (!model) return;
    if (frame.state) this.#incomplete = isIncomplete(frame.state.picture);
    if (frame.requestsLeftOut || frame.tokensLeftOut || frame.ownersChanged) this.#incomplete = true;
    this.#show({ model: changed(model, frame, atMs) });
    // The state has the window that the stream was opened with.
    if (frame.ownersChanged || frame.state) void this.#refresh();
  }

  #lose(problem?: string): void {
    const { model } = this.#snapshot;
    this.#show({ status: 'lost', problem, model: model && withLostConnection(model, performance.now()) });
  }

  #show(changes: Partial<Snapshot>): void {
    this.#snapshot = { ...this.#snapshot, ...changes };
    for (const reader of this.#readers) reader(this.#snapshot);
  }
}

/** The present first; a window of the past follows. */
const presentOf = (view: View): View => ({
  ...view,
  windowMs: Math.max(60_000, view.windowMs),
  untilMs: undefined,
  requests: undefined,
});

const isIncomplete = ({ lanes, matching }: PictureView): boolean =>
  lanes.filter(({ id }) => id !== '').length < matching;

function queryOf(view: View): string {
  const given = Object.entries(view).filter(([, value]) => value !== undefined && value !== '');
  return `${new URLSearchParams(given.map(([name, value]) => [name, `${value}`]))}`;
}

export const ConnectionContext = createContext<Connection | undefined>(undefined);
