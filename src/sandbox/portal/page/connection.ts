import type { StateView, UpdateFrame } from '../../api-types.ts';
import { ask, Refused } from './api.ts';
import { changed, type Model, modelOf } from './model.ts';

export type Status = 'connecting' | 'live' | 'lost';

export interface Snapshot {
  readonly model: Model | undefined;
  readonly status: Status;
  /** Why there is nothing to show. */
  readonly problem: string | undefined;
}

const RETRY_MS = 2000;

/**
 * Keeps a model of the sandbox up to date: asks for the state once, and follows the event stream from there on. When the
 * connection is lost the browser takes up the stream where it ended; only if that is not possible is all asked for anew.
 * A page that nobody sees lets go of its stream: a browser has but six connections to a host, for all its pages together.
 */
export class Connection {
  #snapshot: Snapshot = { model: undefined, status: 'connecting', problem: undefined };
  #source: EventSource | undefined;
  #loading = false;
  readonly #readers = new Set<() => void>();

  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  subscribe(reader: () => void): () => void {
    this.#readers.add(reader);
    return () => this.#readers.delete(reader);
  }

  /** To be called when the page comes into sight or goes out of it. */
  show(visible: boolean): void {
    if (visible && !this.#source) void this.load();
    if (!visible) this.#release();
  }

  /** Begins, or begins anew. Done while it is under way, does nothing. */
  async load(): Promise<void> {
    if (this.#loading) return;
    this.#loading = true;
    this.#release();
    try {
      const state = await ask<StateView>('GET', '/api/state');
      this.#show({ model: modelOf(state, performance.now()), problem: undefined });
      this.#follow(state.lastEventId);
    } catch (error) {
      this.#show({ status: 'lost', problem: error instanceof Refused ? error.message : undefined });
      setTimeout(() => void this.load(), RETRY_MS);
    } finally {
      this.#loading = false;
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
    source.addEventListener('open', () => this.#show({ status: 'live' }));
    source.addEventListener('update', (event: MessageEvent<string>) => this.#take(JSON.parse(event.data)));
    source.addEventListener('error', () => {
      this.#show({ status: 'lost' });
      // The browser goes on trying, except where the answer was no stream.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => void this.load(), RETRY_MS);
    });
  }

  #take(frame: UpdateFrame): void {
    const { model } = this.#snapshot;
    if (frame.stale) void this.load();
    else if (model) this.#show({ model: changed(model, frame, performance.now()) });
  }

  #show(changes: Partial<Snapshot>): void {
    this.#snapshot = { ...this.#snapshot, ...changes };
    for (const reader of this.#readers) reader();
  }
}
