import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';

interface Frame {
  readonly number: number;
  readonly text: string;
}

/** Frames are kept for those who come back: a minute of them at most, and never more than this. */
const KEPT_FRAMES = 600;
const KEPT_BYTES = 8_000_000;

/** What may wait for one reader; one that is slower is cut off, and comes back with `Last-Event-ID`. */
const MAX_WAITING_BYTES = 1_000_000;

const MAX_READERS = 50;

/** How long frames go on being kept when nobody reads, by the machine's clock. */
const LINGER_MS = 30_000;

const HEARTBEAT_MS = 15_000;

/**
 * A stream of server-sent events. Each reader gets what comes from now on; one that says which event it saw last first
 * gets those after it, alone, or is told that they are gone. Nothing is made or kept while nobody reads.
 *
 * @see {@link https://html.spec.whatwg.org/multipage/server-sent-events.html HTML, server-sent events}
 */
export class EventStream {
  /** In every id, so that one of an earlier run is not taken for one of this. */
  readonly #run = randomBytes(4).toString('hex');
  readonly #readers = new Set<ServerResponse>();
  readonly #frames: Frame[] = [];
  readonly #stale: () => string;
  #keptBytes = 0;
  #number = 0;
  #wantedUntilMs = 0;
  #skipped = false;
  readonly #heartbeat: NodeJS.Timeout;

  /** @param stale makes the data of the event that tells a reader to start anew. */
  constructor(stale: () => string) {
    this.#stale = stale;
    this.#heartbeat = setInterval(() => this.#beat(), HEARTBEAT_MS).unref();
  }

  /** What a reader that begins now has seen: all. Frames are kept for it until it has come. */
  begin(): string {
    this.#wantedUntilMs = performance.now() + LINGER_MS;
    this.#skipped = false;
    return `${this.#run}-${this.#number}`;
  }

  /** Whether anybody reads, or may come back to read. */
  get wanted(): boolean {
    return this.#readers.size > 0 || performance.now() < this.#wantedUntilMs;
  }

  /** Says that something happened which was not published as nobody wanted it. */
  skip(): void {
    if (this.#skipped) return;
    this.#skipped = true;
    this.#number++;
    this.#frames.length = 0;
    this.#keptBytes = 0;
  }

  publish(data: string): void {
    const number = ++this.#number;
    const text = `id: ${this.#run}-${number}\nevent: update\ndata: ${data}\n\n`;
    this.#frames.push({ number, text });
    this.#keptBytes += text.length;
    while (this.#frames.length > KEPT_FRAMES || this.#keptBytes > KEPT_BYTES) {
      this.#keptBytes -= this.#frames.shift()?.text.length ?? 0;
    }
    for (const reader of this.#readers) this.#write(reader, text);
  }

  /** Adds a reader, or gives false where there are too many. */
  attach(res: ServerResponse, lastEventId: string | undefined): boolean {
    if (this.#readers.size >= MAX_READERS) return false;
    res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' });
    res.write('retry: 500\n\n');
    const missed = lastEventId === undefined ? [] : this.#after(lastEventId);
    if (missed) for (const frame of missed) this.#write(res, frame.text);
    else res.write(`id: ${this.#run}-${this.#number}\nevent: update\ndata: ${this.#stale()}\n\n`);
    this.#readers.add(res);
    res.on('close', () => {
      this.#readers.delete(res);
      this.begin();
    });
    return true;
  }

  close(): void {
    clearInterval(this.#heartbeat);
    for (const reader of this.#readers) reader.destroy();
  }

  /** What came after an event; undefined where that is not known any more. */
  #after(lastEventId: string): Frame[] | undefined {
    const [run, text = ''] = lastEventId.split('-');
    const last = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (run !== this.#run || !(last <= this.#number)) return undefined;
    const missed = this.#frames.filter((frame) => frame.number > last);
    return missed.length === this.#number - last ? missed : undefined;
  }

  #write(reader: ServerResponse, text: string): void {
    if (reader.writableLength > MAX_WAITING_BYTES) reader.destroy();
    else reader.write(text);
  }

  #beat(): void {
    for (const reader of this.#readers) this.#write(reader, ': still here\n\n');
  }
}
