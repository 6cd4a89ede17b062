import type { UpdateFrame } from '../api-types.ts';
import type { LedgerEntry } from '../state/ledger-entry.ts';
import { secondOf } from '../state/timeline.ts';
import type { IssuedToken } from '../state/tokens.ts';
import type { Topic, World } from '../state/world.ts';
import { EventStream } from './sse.ts';
import { appViews, clockView, figuresView, tokenView } from './views.ts';

/** At most ten frames a second, on the machine's clock. */
const FRAME_MS = 100;

/** Most requests or tokens in one frame; beyond it the oldest are left out. */
const MAX_IN_FRAME = 500;

const MAX_BANDS = 100;

/** How often expired tokens are looked for. */
const COVERAGE_MS = 1000;

/** Collects the changes of the world into frames for the event stream. */
export class Feed {
  readonly stream: EventStream;
  readonly #world: World;
  readonly #topics = new Set<Topic>();
  #requests = new Map<number, LedgerEntry>();
  #requestsLeftOut = 0;
  #seconds = new Set<number>();
  readonly #coverageTimer: NodeJS.Timeout;
  #covered = 0;
  #tokens = new Map<string, IssuedToken>();
  #timer: NodeJS.Timeout | undefined;
  #lastFrameMs = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(world: World) {
    this.#world = world;
    this.#coverageTimer = setInterval(() => this.#noteCoverage(), COVERAGE_MS).unref();
    this.stream = new EventStream(() => JSON.stringify({ clock: clockView(world), stale: true } satisfies UpdateFrame));
  }

  note(topic: Topic): void {
    if (this.#wake()) this.#topics.add(topic);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearInterval(this.#coverageTimer);
    this.stream.close();
  }

  noteRequest(entry: LedgerEntry): void {
    if (!this.#wake()) return;
    if (entry.kind === 'token') this.#seconds.add(secondOf(entry.atMs));
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

  /** Tokens expire without an event of their own. */
  #noteCoverage(): void {
    if (this.stream.wanted && this.#world.tokens.ownersCovered(this.#world.clock.now()) !== this.#covered) this.#wake();
  }

  /** Schedules a frame, unless nobody reads the stream. */
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
    this.#seconds = new Set();
    this.#tokens = new Map();
  }

  #frame(): UpdateFrame {
    const world = this.#world;
    const has = (topic: Topic) => this.#topics.has(topic);
    const requests = [...this.#requests.values()];
    const figures = figuresView(world);
    this.#covered = figures.ownersCovered;
    const tokens = [...this.#tokens.values()].map(tokenView);
    return {
      clock: clockView(world),
      figures,
      ...(requests.length > 0 && { requests }),
      ...(this.#seconds.size > 0 && { seconds: [...this.#seconds].map((second) => world.ledger.timeline.at(second)) }),
      ...((has('faults') || has('clock') || has('scenario')) && { bands: world.history.since(0).slice(-MAX_BANDS) }),
      ...(this.#requestsLeftOut > 0 && { requestsLeftOut: this.#requestsLeftOut }),
      ...(tokens.length > 0 && { tokens }),
      ...(has('faults') && { faults: world.faults.list() }),
      ...(has('profile') && { profile: world.profile }),
      ...(has('apps') && { apps: appViews(world) }),
      ...(has('owners') && { ownersChanged: true as const }),
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
