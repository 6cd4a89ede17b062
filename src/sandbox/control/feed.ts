import type { ServerResponse } from 'node:http';
import type { LedgerEntry } from '../state/ledger-entry.ts';
import { secondOf } from '../state/timeline.ts';
import type { IssuedToken } from '../state/tokens.ts';
import type { Topic, World } from '../state/world.ts';
import type { StateView, UpdateFrame } from './shapes.ts';
import { appViews, clockView, figuresView, tokenView } from './views.ts';

/** At most ten frames a second, on the machine's clock. */
const FRAME_MS = 100;

/** After a frame that had to leave requests out: its readers fetch the picture anyway. */
const BUSY_FRAME_MS = 500;

/** A frame is sent even if nothing happens: tokens expire without an event, and a silent connection may be cut. */
const PULSE_MS = 1000;

/** The most requests or tokens in one frame; later ones are left out, and the readers fetch the picture anew. */
const MAX_IN_FRAME = 250;

const MAX_BANDS = 100;

/** How many bytes may be buffered for one reader. A slower reader is disconnected, and starts over when it reconnects. */
const MAX_WAITING_BYTES = 10_000_000;

const MAX_READERS = 50;

/**
 * The stream of server-sent events: a reader gets the state first, then the changes of the world in frames.
 *
 * @see {@link https://html.spec.whatwg.org/multipage/server-sent-events.html HTML, server-sent events}
 */
export class Feed {
  readonly #world: World;
  /** Each with the function that returns the state to send it. */
  readonly #readers = new Map<ServerResponse, () => StateView>();
  readonly #topics = new Set<Topic>();
  readonly #requests = new Map<number, LedgerEntry>();
  readonly #leftOut = new Set<number>();
  readonly #tokensLeftOut = new Set<string>();
  readonly #tokens = new Map<string, IssuedToken>();
  readonly #seconds = new Set<number>();
  readonly #pulse: NodeJS.Timeout;
  #timer: NodeJS.Timeout | undefined;
  #nextFrameMs = Number.NEGATIVE_INFINITY;

  constructor(world: World) {
    this.#world = world;
    this.#pulse = setInterval(() => this.#wake(), PULSE_MS).unref();
  }

  /** Adds a reader. Returns false if there are too many. */
  attach(res: ServerResponse, state: () => StateView): boolean {
    if (this.#readers.size >= MAX_READERS) return false;
    res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' });
    res.write('retry: 500\n\n');
    this.#sendState(res, state);
    this.#readers.set(res, state);
    res.on('close', () => this.#readers.delete(res));
    return true;
  }

  note(topic: Topic): void {
    if (this.#wake()) this.#topics.add(topic);
  }

  noteRequest(entry: LedgerEntry): void {
    if (!this.#wake()) return;
    if (entry.kind === 'token') this.#seconds.add(secondOf(entry.atMs));
    const { id } = entry;
    if (this.#requests.size < MAX_IN_FRAME || this.#requests.has(id)) this.#requests.set(id, entry);
    else this.#leftOut.add(id);
  }

  noteToken(token: IssuedToken): void {
    if (!this.#wake()) return;
    const { fingerprint } = token;
    if (this.#tokens.size < MAX_IN_FRAME || this.#tokens.has(fingerprint)) this.#tokens.set(fingerprint, token);
    else this.#tokensLeftOut.add(fingerprint);
  }

  close(): void {
    clearTimeout(this.#timer);
    clearInterval(this.#pulse);
    for (const reader of this.#readers.keys()) reader.destroy();
    this.#readers.clear();
  }

  /** Schedules a frame. Returns false if the stream has no reader. */
  #wake(): boolean {
    if (this.#readers.size === 0) return false;
    if (!this.#timer) {
      const waitMs = Math.max(0, this.#nextFrameMs - performance.now());
      this.#timer = setTimeout(() => this.#send(), Math.ceil(waitMs)).unref();
    }
    return true;
  }

  #send(): void {
    this.#timer = undefined;
    this.#nextFrameMs =
      performance.now() + (this.#leftOut.size + this.#tokensLeftOut.size > 0 ? BUSY_FRAME_MS : FRAME_MS);
    if (this.#topics.has('all')) {
      for (const [reader, state] of this.#readers) this.#sendState(reader, state);
    } else {
      const event = eventOf(this.#frame());
      for (const reader of this.#readers.keys()) write(reader, event);
    }
    const noted = [this.#topics, this.#requests, this.#leftOut, this.#seconds, this.#tokens, this.#tokensLeftOut];
    for (const each of noted) each.clear();
  }

  #sendState(reader: ServerResponse, state: () => StateView): void {
    write(reader, eventOf({ clock: clockView(this.#world), state: state() }));
  }

  #frame(): UpdateFrame {
    const world = this.#world;
    const has = (topic: Topic) => this.#topics.has(topic);
    const requests = [...this.#requests.values()];
    const tokens = [...this.#tokens.values()].map(tokenView);
    return {
      clock: clockView(world),
      figures: figuresView(world),
      ...(requests.length > 0 && { requests }),
      ...(this.#seconds.size > 0 && { seconds: [...this.#seconds].map((second) => world.ledger.timeline.at(second)) }),
      ...((has('faults') || has('clock') || has('scenario')) && { bands: world.history.since(0).slice(-MAX_BANDS) }),
      ...(this.#leftOut.size > 0 && { requestsLeftOut: this.#leftOut.size }),
      ...(tokens.length > 0 && { tokens }),
      ...(this.#tokensLeftOut.size > 0 && { tokensLeftOut: this.#tokensLeftOut.size }),
      ...(has('faults') && { faults: world.faults.list() }),
      ...(has('profile') && { profile: world.profile }),
      ...(has('apps') && { apps: appViews(world) }),
      ...(has('owners') && { ownersChanged: true as const }),
      ...(has('scenario') && { scenario: world.scenario?.run ?? null }),
    };
  }
}

const eventOf = (frame: UpdateFrame): string => `event: update\ndata: ${JSON.stringify(frame)}\n\n`;

function write(reader: ServerResponse, event: string): void {
  if (reader.writableLength > MAX_WAITING_BYTES) reader.destroy();
  else reader.write(event);
}
