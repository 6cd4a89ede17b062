import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';

interface Frame {
  readonly number: number;
  readonly text: string;
}

/** Frames are kept for readers that reconnect: at most a minute of them, and at most this many bytes. */
const KEPT_FRAMES = 600;
const KEPT_BYTES = 8_000_000;

/** The bytes that may be buffered for one reader. A slower reader is disconnected, and resumes by `Last-Event-ID`. */
const MAX_WAITING_BYTES = 1_000_000;

const MAX_READERS = 50;

/** How long frames are kept without a reader, by the machine's clock. */
const LINGER_MS = 30_000;

const HEARTBEAT_MS = 15_000;

/**
 * A stream of server-sent events. Each reader gets future events. A reader that names its last event first gets those that
 * it missed, or a `stale` event if they are no longer kept. Without a reader, no events are created or kept.
 *
 * @see {@link https://html.spec.whatwg.org/multipage/server-sent-events.html HTML, server-sent events}
 */
export class EventStream {
  /** Part of every id, so that ids of an earlier run are not mistaken for ids of this one. */
  readonly #run = randomBytes(4).toString('hex');
  readonly #readers = new Set<ServerResponse>();
  readonly #frames: Frame[] = [];
  readonly #stale: () => string;
  #keptBytes = 0;
  #number = 0;
  #wantedUntilMs = 0;
  #skipped = false;
  readonly #heartbeat: NodeJS.Timeout;

  /** @param stale returns the data of the event that tells a reader to fetch the state again. */
  constructor(stale: () => string) {
    this.#stale = stale;
    this.#heartbeat = setInterval(() => this.#beat(), HEARTBEAT_MS).unref();
  }

  /** The id from which a new reader starts. Frames are kept until it connects. */
  begin(): string {
    this.#wantedUntilMs = performance.now() + LINGER_MS;
    this.#skipped = false;
    return `${this.#run}-${this.#number}`;
  }

  /** Whether there is a reader, or one may reconnect. */
  get wanted(): boolean {
    return this.#readers.size > 0 || performance.now() < this.#wantedUntilMs;
  }

  /** Records that an event was not published because the stream had no reader. */
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

  /** Adds a reader. Returns false if there are too many. */
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

  /** The frames after an event; undefined if they are no longer kept. */
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
