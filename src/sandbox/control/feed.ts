import type { LedgerEntry } from '../state/ledger-entry.ts';
import { secondOf } from '../state/timeline.ts';
import type { IssuedToken } from '../state/tokens.ts';
import type { Topic, World } from '../state/world.ts';
import type { UpdateFrame } from './shapes.ts';
import { EventStream } from './sse.ts';
import { appViews, clockView, figuresView, tokenView } from './views.ts';

/** At most ten frames a second, on the machine's clock. */
const FRAME_MS = 100;

/** After a frame that had to leave requests out: its readers fetch the picture anyway. */
const BUSY_FRAME_MS = 500;

/** The most requests or tokens in one frame; later ones are left out. */
const MAX_IN_FRAME = 250;

const MAX_BANDS = 100;

/** How often the feed checks for expired tokens. */
const COVERAGE_MS = 1000;

/** Collects the changes of the world into frames for the event stream. */
export class Feed {
  readonly stream: EventStream;
  readonly #world: World;
  readonly #topics = new Set<Topic>();
  readonly #requests = new Map<number, LedgerEntry>();
  readonly #leftOut = new Set<number>();
  readonly #tokens = new Map<string, IssuedToken>();
  readonly #seconds = new Set<number>();
  readonly #coverageTimer: NodeJS.Timeout;
  #covered = 0;
  #timer: NodeJS.Timeout | undefined;
  #nextFrameMs = Number.NEGATIVE_INFINITY;
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
    const { id } = entry;
    if (this.#requests.size < MAX_IN_FRAME || this.#requests.has(id)) this.#requests.set(id, entry);
    else this.#leftOut.add(id);
  }

  noteToken(token: IssuedToken): void {
    if (!this.#wake()) return;
    const { fingerprint } = token;
    if (this.#tokens.size < MAX_IN_FRAME || this.#tokens.has(fingerprint)) this.#tokens.set(fingerprint, token);
  }

  /** Schedules a frame after tokens have expired, because expiry triggers no event. */
  #noteCoverage(): void {
    if (this.stream.wanted && this.#world.tokens.ownersCovered(this.#world.clock.now()) !== this.#covered) this.#wake();
  }

  /** Schedules a frame. Returns false if the stream has no reader. */
  #wake(): boolean {
    if (this.#closed) return false;
    if (!this.stream.wanted) {
      this.stream.skip();
      return false;
    }
    if (!this.#timer) {
      const waitMs = Math.max(0, this.#nextFrameMs - performance.now());
      this.#timer = setTimeout(() => this.#send(), Math.ceil(waitMs)).unref();
    }
    return true;
  }

  #send(): void {
    this.#timer = undefined;
    this.#nextFrameMs = performance.now() + (this.#leftOut.size > 0 ? BUSY_FRAME_MS : FRAME_MS);
    this.stream.publish(JSON.stringify(this.#frame()));
    for (const noted of [this.#topics, this.#requests, this.#leftOut, this.#seconds, this.#tokens]) noted.clear();
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
      ...(this.#leftOut.size > 0 && { requestsLeftOut: this.#leftOut.size }),
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
