import type { UpdateFrame } from '../api-types.ts';
import type { LedgerEntry } from '../state/ledger-entry.ts';
import type { IssuedToken } from '../state/tokens.ts';
import type { Topic, World } from '../state/world.ts';
import { EventStream } from './sse.ts';
import { appViews, clockView, ownerViews, tokenView } from './views.ts';

/** At most ten frames a second, by the machine's clock. */
const FRAME_MS = 100;

/** The most requests or tokens in one frame; of more, the newest. */
const MAX_IN_FRAME = 500;

/** Gathers what changes in the world into frames, and gives them to the event stream. */
export class Feed {
  readonly stream: EventStream;
  readonly #world: World;
  readonly #topics = new Set<Topic>();
  #requests = new Map<number, LedgerEntry>();
  #requestsLeftOut = 0;
  #tokens = new Map<string, IssuedToken>();
  #timer: NodeJS.Timeout | undefined;
  #lastFrameMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(world: World) {
    this.#world = world;
    this.stream = new EventStream(() => JSON.stringify({ clock: clockView(world), stale: true } satisfies UpdateFrame));
  }

  note(topic: Topic): void {
    if (this.#wake()) this.#topics.add(topic);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.stream.close();
  }

  noteRequest(entry: LedgerEntry): void {
    if (!this.#wake()) return;
    if (this.#requests.size >= MAX_IN_FRAME && !this.#requests.has(entry.id)) {
      this.#requestsLeftOut++;
      dropOldest(this.#requests);
    }
    this.#requests.set(entry.id, entry);
  }

  noteToken(token: IssuedToken): void {
    if (!this.#wake()) return;
    if (this.#tokens.size >= MAX_IN_FRAME) dropOldest(this.#tokens);
    this.#tokens.set(token.fingerprint, token);
  }

  /** Makes sure that a frame is sent soon, unless nobody wants it. */
  #wake(): boolean {
    if (this.#closed) return false;
    if (!this.stream.wanted) {
      this.stream.skip();
      return false;
    }
    if (!this.#timer) {
      const waitMs = Math.max(0, this.#lastFrameMs + FRAME_MS - performance.now());
      this.#timer = setTimeout(() => this.#send(), Math.ceil(waitMs)).unref();
    }
    return true;
  }

  #send(): void {
    this.#timer = undefined;
    this.#lastFrameMs = performance.now();
    this.stream.publish(JSON.stringify(this.#frame()));
    this.#topics.clear();
    this.#requests = new Map();
    this.#requestsLeftOut = 0;
    this.#tokens = new Map();
  }

  #frame(): UpdateFrame {
    const world = this.#world;
    const has = (topic: Topic) => this.#topics.has(topic);
    const requests = [...this.#requests.values()];
    const tokens = [...this.#tokens.values()].map(tokenView);
    return {
      clock: clockView(world),
      ...(requests.length > 0 && { requests, summary: world.ledger.summary() }),
      ...(this.#requestsLeftOut > 0 && { requestsLeftOut: this.#requestsLeftOut }),
      ...(tokens.length > 0 && { tokens }),
      ...(has('faults') && { faults: world.faults.list() }),
      ...(has('profile') && { profile: world.profile }),
      ...(has('apps') && { apps: appViews(world) }),
      ...(has('owners') && { owners: ownerViews(world) }),
      ...(has('scenario') && { scenario: world.scenario?.run ?? null }),
      ...(has('all') && { stale: true as const }),
    };
  }
}

function dropOldest(map: Map<unknown, unknown>): void {
  for (const key of map.keys()) {
    map.delete(key);
    return;
  }
}
