/** A page's connection to its server: the event stream, each event of which is the whole state. */

import { type Clocked, withLostConnection } from './page-clock.ts';

export type Status = 'connecting' | 'live' | 'silent' | 'lost' | 'refused';

export interface Snapshot<Model> {
  readonly model: Model | undefined;
  readonly status: Status;
  /** Why there is nothing to show. */
  readonly problem: string | undefined;
}

export interface Stream<State, Model> {
  readonly address: string;
  /** The page's model of a state. `before`: the one of the state before. */
  readonly modelOf: (state: State, pageMs: number, before: Model | undefined) => Model;
  /** Why the answer was no stream. */
  readonly why: () => Promise<Partial<Snapshot<Model>>>;
}

const RETRY_MS = 2000;
/** A stream that has not begun by then is buffered somewhere. */
const SILENT_MS = 5000;

/**
 * Keeps the model of a page up to date. After a lost connection the browser opens the stream again. A hidden page closes
 * its stream, because a browser allows six connections to a host for all its pages together.
 */
export class Connection<State, Model extends Clocked, View extends object> {
  #snapshot: Snapshot<Model> = { model: undefined, status: 'connecting', problem: undefined };
  #source: EventSource | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #view: View;
  readonly #stream: Stream<State, Model>;
  readonly #readers = new Set<(snapshot: Snapshot<Model>) => void>();

  /** @param view the part of the state that is shown at first. */
  constructor(stream: Stream<State, Model>, view: View) {
    this.#stream = stream;
    this.#view = view;
  }

  get snapshot(): Snapshot<Model> {
    return this.#snapshot;
  }

  /** Calls the reader now, too: what it has shown so far may be out of date. */
  subscribe(reader: (snapshot: Snapshot<Model>) => void): () => void {
    this.#readers.add(reader);
    reader(this.#snapshot);
    return () => this.#readers.delete(reader);
  }

  /** Follows the stream while the page is visible. */
  start(): void {
    const show = () => {
      if (document.visibilityState !== 'visible') this.#release();
      else if (!this.#source) this.#follow();
    };
    document.addEventListener('visibilitychange', show);
    show();
  }

  /** Shows another part of the state. */
  look(view: View): void {
    if (queryOf(view) === queryOf(this.#view)) return;
    this.#view = view;
    if (this.#source) this.#follow();
  }

  #release(): void {
    clearTimeout(this.#silence);
    this.#source?.close();
    this.#source = undefined;
  }

  #follow(): void {
    this.#release();
    const source = new EventSource(`${this.#stream.address}?${queryOf(this.#view)}`);
    this.#source = source;
    this.#silence = setTimeout(() => this.#show({ status: 'silent' }), SILENT_MS);
    source.addEventListener('update', ({ data }: MessageEvent<string>) => {
      if (this.#source !== source) return;
      const model = this.#stream.modelOf(JSON.parse(data) as State, performance.now(), this.#snapshot.model);
      this.#show({ status: 'live', problem: undefined, model });
    });
    source.addEventListener('error', () => {
      this.#lose({ status: 'lost', problem: undefined });
      // The browser retries by itself, except where the answer was not a stream.
      if (source.readyState === EventSource.CLOSED) void this.#retry(source);
    });
  }

  /** Shows why the stream was refused, and tries again. */
  async #retry(source: EventSource): Promise<void> {
    this.#lose(await this.#stream.why());
    setTimeout(() => {
      if (this.#source === source) this.#follow();
    }, RETRY_MS);
  }

  #lose(changes: Partial<Snapshot<Model>>): void {
    const { model } = this.#snapshot;
    this.#show({ ...changes, model: model && withLostConnection(model, performance.now()) });
  }

  #show(changes: Partial<Snapshot<Model>>): void {
    clearTimeout(this.#silence);
    this.#snapshot = { ...this.#snapshot, ...changes };
    for (const reader of this.#readers) reader(this.#snapshot);
  }
}

/** The part of the state that is shown, as the query of an address. */
export function queryOf(view: object): string {
  const given = Object.entries(view).filter(([, value]) => value !== undefined && value !== '');
  return `${new URLSearchParams(given.map(([name, value]) => [name, `${value}`]))}`;
}
