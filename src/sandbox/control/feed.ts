import type { ServerResponse } from 'node:http';
import { encodingOf, writerOf } from '../../page-engine/compression.ts';
import { StateStream } from '../../page-engine/state-stream.ts';
import type { Stream } from './operation.ts';

/** How often a reader may be sent the state, and how often it is read if nothing happens: tokens end without an event. */
const FRAME_MS = 250;
const PULSE_MS = 1000;

/** How many bytes may be buffered for one reader. A slower one is disconnected, and starts over when it reconnects. */
const MAX_WAITING_BYTES = 10_000_000;
const MAX_READERS = 50;

/** The event stream of the portal: when to send the state, and to whom. */
export class Feed {
  readonly #stream = new StateStream();
  readonly #readers = new Set<ServerResponse>();
  readonly #pulse = setInterval(() => this.note(), PULSE_MS).unref();
  #timer: NodeJS.Timeout | undefined;

  /** Adds a reader. Returns false if there are too many. */
  attach(res: ServerResponse, { key, state }: Pick<Stream, 'key' | 'state'>): boolean {
    if (this.#readers.size >= MAX_READERS) return false;
    const accepted = `${res.req.headers['accept-encoding']}`;
    const headers = { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' };
    res.writeHead(200, { ...headers, ...encodingOf(accepted) });
    const writer = writerOf(accepted, (bytes) => void res.write(bytes));
    writer.send('retry: 500\n\n');
    this.#readers.add(res);
    const leave = this.#stream.join(key, state, (event) => {
      if (res.writableLength > MAX_WAITING_BYTES) res.destroy();
      else writer.send(event);
    });
    res.on('close', () => {
      leave();
      writer.end();
      this.#readers.delete(res);
    });
    return true;
  }

  /** Something has changed. */
  note(): void {
    if (this.#readers.size > 0) this.#timer ??= setTimeout(() => this.#send(), FRAME_MS).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
    clearInterval(this.#pulse);
    for (const reader of this.#readers) reader.destroy();
    this.#readers.clear();
  }

  #send(): void {
    this.#timer = undefined;
    this.#stream.update();
  }
}
