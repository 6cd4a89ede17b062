/**
 * Who watches one registry: makes the calls, keeps its own account of what was asked, granted, rejected and forgotten,
 * and holds everything the registry does against the contract. It takes nothing from the registry's word that it can
 * know by itself; where it cannot, it errs on the side of not complaining.
 */

import { AccessToken, OwnerTokenError, type OwnerTokenRegistry, type TokenRequest } from '../../src/index.ts';
import { CircuitWatch } from './circuit-watch.ts';
import type { Emissions } from './emissions.ts';
import type { Asked } from './service.ts';
import type { WorldClock } from './world-clock.ts';

/** What of the world a witness needs. */
export interface WorldView {
  readonly step: number;
  readonly clock: WorldClock;
  readonly emissions: Emissions;
  /** Ends the world: an invariant is broken. */
  broken(what: string): void;
  /** Told of what happens, for a replay. */
  trace(line: string): void;
  /** A caller has got this token and may use it. */
  delivered(witness: Witness, owner: number, token: AccessToken): void;
}

/** What the witness must know of the registry's options. */
export interface WatchedOptions {
  readonly concurrency: number;
  readonly maxOwners: number;
  readonly maxQueued: number;
  readonly maxQueueMs: number;
  readonly timeoutMs: number;
  readonly longestPauseMs: number;
}

/** One call of `getToken`. */
export interface Call {
  readonly owner: number;
  readonly generation: number;
  readonly deadlineMs: number;
  /** What was known as rejected before the call. */
  readonly rejectedBefore: readonly string[];
  /** The token that was held, and so must be given at once. */
  readonly held: string | undefined;
  readonly controller: AbortController | undefined;
  readonly step: number;
  /** Aborted when nothing else was going on: nothing but the reason may come. */
  aborted: boolean;
  over: boolean;
  token: AccessToken | undefined;
}

/** What is known of a request as it is sent. */
export interface Mark {
  readonly step: number;
  /** The second of one call, to a service that insists on a rejected token. */
  readonly isSecond: boolean;
  /** Its owner may be known to fail. */
  readonly mayFail: boolean;
  /** Its owner was known to fail when the request was wished for, for certain. */
  readonly isFailing: boolean;
}

/** What is known of a token that was granted. */
interface Granted {
  readonly owner: number;
  generation: number;
  fromWallMs: number;
  fromMs: number;
  lifetimeMs: number;
}

/** A token that is held for certain, and until when by the wall clock and at least until when by the other. */
interface Held {
  readonly value: string;
  readonly untilWallMs: number;
  readonly untilMs: number;
}

const REMEMBERED = 4;
const NONE: readonly string[] = [];
/** Sums of epoch milliseconds and fractions are this inexact. */
const INEXACT_MS = 0.01;

export class Witness {
  readonly world: WorldView;
  readonly index: number;
  readonly keys: readonly string[];
  readonly options: WatchedOptions;
  readonly gates: CircuitWatch;
  /** Raised by each rejection of what was held, and by each forgetting. */
  readonly generation: number[];
  readonly pending = new Set<Call>();
  registry!: OwnerTokenRegistry;
  inFlight = 0;
  closed = false;
  #names: string[] = [];
  readonly #granted = new Map<string, Granted>();
  readonly #inFlightOf: number[];
  /** Generations begun since the owner last had nothing under way. */
  readonly #begun: number[];
  readonly #rejected: (readonly string[])[];
  readonly #everRejected = new Set<string>();
  readonly #held: (Held | undefined)[];
  /** Tokens were granted that had been rejected; the request may be made a second time. */
  readonly #insisted: boolean[];
  /** Until when the owner's own pause lasts, for certain; monotonic. */
  readonly #pausedUntilMs: (number | undefined)[];
  /** Owners that may be known to fail, and those whose next request is for certain one of a failing owner. */
  readonly #mayFail: boolean[];
  readonly #isFailing: boolean[];
  #failingInFlight = 0;
  #failedOwner: number | undefined;
  #warming = 0;
  #evictions = 0;

  constructor(world: WorldView, index: number, keys: readonly string[], options: WatchedOptions) {
    this.world = world;
    this.index = index;
    this.keys = keys;
    this.options = options;
    this.gates = new CircuitWatch(world, options);
    const all = <T>(value: T) => Array.from(keys, () => value);
    this.generation = all(0);
    this.#inFlightOf = all(0);
    this.#begun = all(0);
    this.#rejected = all(NONE);
    this.#held = all(undefined);
    this.#insisted = all(false);
    this.#mayFail = all(false);
    this.#isFailing = all(false);
    this.#pausedUntilMs = all(undefined);
  }

  watch(registry: OwnerTokenRegistry): void {
    this.registry = registry;
    this.#names = this.keys.map((key) => registry.fingerprint(key));
  }

  ownerOf(accessKey: string): number {
    const owner = this.keys.indexOf(accessKey);
    if (owner < 0) this.#broken('asked for an access key that nobody called with');
    return owner;
  }

  // What callers do.

  call(owner: number, controller?: AbortController): Call {
    const { clock, step } = this.world;
    const held = this.registry.peek(this.keys[owner] as string)?.value;
    this.#mustStillHold(owner, held);
    const { maxQueueMs, timeoutMs } = this.options;
    const call: Call = {
      ...{ owner, controller, held, step, over: false, token: undefined },
      aborted: controller?.signal.aborted === true,
      generation: this.generation[owner] as number,
      deadlineMs: clock.monotonicMs + maxQueueMs + 2 * timeoutMs + 1,
      rejectedBefore: this.#rejected[owner] as readonly string[],
    };
    this.pending.add(call);
    if (held === undefined && this.#mayFail[owner]) this.#noteFailing(owner);
    try {
      const outcome = this.registry.getToken(this.keys[owner] as string, controller && { signal: controller.signal });
      outcome.then(
        (token) => this.#got(call, token),
        (error: unknown) => this.#refused(call, error),
      );
    } catch (thrown) {
      this.#broken(`getToken threw instead of rejecting: ${String(thrown)}`);
    }
    return call;
  }

  reject(owner: number, token: AccessToken | string): void {
    const key = this.keys[owner] as string;
    const value = token instanceof AccessToken ? token.value : token;
    const before = this.registry.peek(key);
    if (before?.value === value) this.#held[owner] = undefined;
    this.#everRejected.add(value);
    const known = this.#rejected[owner] as readonly string[];
    // Without a slot nothing is remembered: then a nameless place is taken, so that the list is never too long.
    const name = before && !this.closed ? value : '';
    if (!known.includes(value)) this.#rejected[owner] = [name, ...known].slice(0, REMEMBERED);
    const wasHeld = this.registry.reject(key, token);
    if (before && (before.value === value) !== wasHeld) this.#broken('reject did not tell whether it was held');
    // A few fresh tokens rejected in a row make the owner one that is known to fail.
    if (wasHeld) this.#mayFail[owner] = true;
    if (wasHeld) this.#begin(owner);
  }

  forget(owner: number): void {
    this.registry.forget(this.keys[owner] as string);
    this.#forgotten(owner);
  }

  forgetAll(): void {
    this.registry.forgetAll();
    for (const owner of this.keys.keys()) this.#forgotten(owner);
  }

  resume(owner?: number): void {
    this.registry.resume(owner === undefined ? undefined : this.keys[owner]);
    if (owner === undefined) {
      this.gates.resumed();
      this.#pausedUntilMs.fill(undefined);
      this.#isFailing.fill(false);
    } else {
      this.#pausedUntilMs[owner] = undefined;
      this.#isFailing[owner] = false;
    }
  }

  /** Everything that only tells. */
  look(owner: number): void {
    const key = this.keys[owner] as string;
    const { emissions } = this.world;
    emissions.fields('describe', this.registry.describe(key));
    emissions.value('stats', this.registry.stats());
    emissions.text('fingerprint', this.registry.fingerprint(key));
    const token = this.registry.peek(key);
    if (token) emissions.value('a token', token);
  }

  async warmUp(signal: AbortSignal): Promise<void> {
    this.#warming++;
    try {
      const report = await this.registry.warmUp(this.keys, { signal });
      this.world.emissions.value('a report', report);
      if (report.ready + report.failedCount !== this.keys.length) this.#broken('a warm-up lost owners');
    } finally {
      this.#warming--;
    }
  }

  /** How long this owner is to wait for its next attempt. */
  waitMs(owner: number): number {
    const { retryAtMs } = this.registry.describe(this.keys[owner] as string);
    return retryAtMs === undefined ? 1_000 : Math.max(1, retryAtMs - this.world.clock.wallMs);
  }

  close(timeoutMs: number): Promise<void> {
    this.closed = true;
    this.#held.fill(undefined);
    return this.registry.close({ timeoutMs });
  }

  // What the service sees.

  /** A request comes. */
  asks(owner: number, request: TokenRequest): Mark {
    const { concurrency } = this.options;
    const mark = {
      step: this.world.step,
      isSecond: request.reason === 'rejected' && this.#insisted[owner] === true,
      mayFail: this.#mayFail[owner] === true,
      // What was noted of an owner is void once an eviction may have made the registry forget it.
      isFailing: this.#isFailing[owner] === true && this.registry.stats().evictions === this.#evictions,
    };
    this.#insisted[owner] = false;
    this.#isFailing[owner] = false;
    // An expired token is let go of with the next request: it does not come back when the clock is set back.
    if (request.reason !== 'refresh') this.#held[owner] = undefined;
    this.inFlight++;
    this.#inFlightOf[owner] = (this.#inFlightOf[owner] as number) + 1;
    if (mark.isFailing) this.#failingInFlight++;
    // A hook may close the registry as the request is sent; the source then sees its signal aborted.
    if (this.closed && !request.signal.aborted) this.#broken('a request after close');
    if (this.inFlight > concurrency) this.#broken(`${this.inFlight} under way with a concurrency of ${concurrency}`);
    if (this.#failingInFlight > Math.max(1, Math.floor(concurrency / 4))) {
      this.#broken(`${this.#failingInFlight} owners known to fail are under way`);
    }
    if ((this.#inFlightOf[owner] as number) > 1 + (this.#begun[owner] as number)) {
      this.#broken(`owner ${owner} has two requests of one generation under way`);
    }
    this.#checkRequest(owner, request, mark.isSecond);
    const untilMs = this.#pausedUntilMs[owner];
    const isPaused = untilMs !== undefined && this.world.clock.monotonicMs < untilMs - 1.5;
    if (!mark.isSecond && isPaused && this.#begun[owner] === 0) {
      this.#broken(`owner ${owner} was asked for within its own pause`);
    }
    this.gates.asks(this.registry, mark);
    return mark;
  }

  /** A request has failed, or brought something that is no grant. */
  answered(owner: number, error: unknown, mark: Mark): void {
    this.#landed(owner, mark);
    this.#failedOwner = owner;
    this.gates.failed(owner, error, mark);
  }

  granted(asked: Asked, value: string): void {
    const { owner, sentMs, sentWallMs, generation, mark } = asked;
    const { monotonicMs, wallMs } = this.world.clock;
    this.#landed(owner, mark);
    this.gates.granted(owner, mark);
    const fromWallMs = Math.min(sentWallMs, wallMs - (monotonicMs - sentMs));
    const before = this.#granted.get(value);
    if (this.#everRejected.has(value)) this.#insisted[owner] = true;
    this.#held[owner] = undefined;
    this.#pausedUntilMs[owner] = undefined;
    if (before) {
      before.generation = Math.max(before.generation, generation);
      before.fromWallMs = Math.max(before.fromWallMs, fromWallMs);
      before.fromMs = Math.max(before.fromMs, sentMs);
    } else {
      const ownerOfToken = Number(value.slice(value.lastIndexOf('-') + 1));
      this.#granted.set(value, { owner: ownerOfToken, generation, fromWallMs, fromMs: sentMs, lifetimeMs: 0 });
    }
  }

  /** The policy has spoken. */
  stated(value: string, lifetimeMs: unknown): void {
    const granted = this.#granted.get(value);
    if (granted) granted.lifetimeMs = Math.max(granted.lifetimeMs, lifetimeThatCounts(lifetimeMs));
  }

  // What is checked when nothing is left to run.

  checkQuiet(): void {
    const { clock } = this.world;
    const { maxOwners, maxQueued, concurrency } = this.options;
    const first = this.pending.values().next().value;
    if (first && first.deadlineMs < clock.monotonicMs) this.#broken('a caller waits beyond its deadline');
    const stats = this.registry.stats();
    if (stats.owners > maxOwners) this.#broken(`${stats.owners} owners are held, ${maxOwners} at most`);
    if (stats.queued > maxQueued) this.#broken(`${stats.queued} owners are queued, ${maxQueued} at most`);
    if (stats.inFlight > concurrency) this.#broken('more in flight than the concurrency');
    if (stats.inFlight !== this.inFlight) this.#broken(`${stats.inFlight} in flight are told of ${this.inFlight}`);
    if (this.closed) {
      if (this.pending.size > 0) this.#broken('a caller still waits after close');
      if (stats.owners > 0 || stats.queued > 0) this.#broken('a closed registry holds something');
      return;
    }
    const isTold = this.#warming > 0 ? stats.waiting >= this.pending.size : stats.waiting === this.pending.size;
    if (!isTold) this.#broken(`${stats.waiting} waiting are told of ${this.pending.size}`);
    if (stats.evictions !== this.#evictions) this.#evicted(stats.evictions);
    this.gates.checkQuiet(stats);
    if (this.#failedOwner !== undefined) this.#notePause(this.#failedOwner, stats.pauses);
    this.#failedOwner = undefined;
    if (stats.queued === 0) this.#idle();
  }

  // Outcomes of calls.

  #got(call: Call, token: AccessToken): void {
    this.#over(call);
    call.token = token;
    const { clock } = this.world;
    const { owner } = call;
    if (!(token instanceof AccessToken)) {
      this.#broken('getToken gave no token');
      return;
    }
    const { value } = token;
    const granted = this.#granted.get(value);
    if (!granted) {
      this.#broken('a token was given that nobody granted here');
      return;
    }
    if (granted.owner !== owner) this.#broken(`owner ${owner} was given a token of owner ${granted.owner}`);
    if (call.aborted) this.#broken('an aborted call was given a token');
    if (call.held !== undefined && call.held !== value) this.#broken('another token was given than the one held');
    if (granted.generation < call.generation) this.#broken('a token of an earlier generation was given');
    const { lifetimeMs } = granted;
    const lifeMs = lifetimeMs - Math.min(lifetimeMs * 0.05, 10_000) + INEXACT_MS;
    if (token.expiresAtMs > granted.fromWallMs + lifeMs) this.#broken('a token claims to live longer than it does');
    if (clock.wallMs >= granted.fromWallMs + lifeMs)
      this.#broken('a token was given past its expiry by the wall clock');
    if (clock.monotonicMs >= granted.fromMs + lifeMs)
      this.#broken('a token was given past its expiry by the other clock');
    const known = this.#rejected[owner] as readonly string[];
    if (this.#roomy && known.includes(value) && call.rejectedBefore.includes(value)) {
      this.#broken('a token was given that had been rejected before the call');
    }
    if (call.held === undefined && granted.generation === this.generation[owner]) this.#mayFail[owner] = false;
    if (call.held === undefined) this.#nowHeld(owner, token);
    this.world.delivered(this, owner, token);
  }

  #refused(call: Call, error: unknown): void {
    this.#over(call);
    const { emissions } = this.world;
    if (call.controller?.signal.aborted && error === call.controller.signal.reason) return;
    if (!(error instanceof OwnerTokenError)) {
      this.#broken(`a call was refused with ${String(error)}`);
      return;
    }
    if (call.aborted) this.#broken('an aborted call did not get its reason');
    emissions.value('an error', error);
    if (error.code === 'closed') {
      if (!this.closed) this.#broken('closed was said of an open registry');
      return;
    }
    if (call.held !== undefined) this.#broken(`${error.code} hides a usable token`);
    if (error.owner !== this.#names[call.owner]) this.#broken('an error names another owner');
    if (error.retryAtMs !== undefined && Number.isNaN(error.retryAtMs))
      this.#broken('an error has no usable retryAtMs');
  }

  #over(call: Call): void {
    if (call.over) this.#broken('a call settled twice');
    call.over = true;
    this.pending.delete(call);
  }

  // Accounts.

  #checkRequest(owner: number, { held, rejected, reason }: TokenRequest, isSecond: boolean): void {
    const { clock } = this.world;
    for (const token of [held, rejected]) {
      if (token && this.#granted.get(token.value)?.owner !== owner)
        this.#broken("a source was shown another owner's token");
    }
    // The second request of a refresh is made because of what the first one brought.
    if (isSecond) return;
    if ((reason === 'refresh') !== (held !== undefined))
      this.#broken(`a request for ${reason} with or without a token`);
    if (held && clock.wallMs >= held.expiresAtMs) this.#broken('an expired token was refreshed');
  }

  #landed(owner: number, mark: Mark): void {
    this.inFlight--;
    if (mark.isFailing) this.#failingInFlight--;
    // Whatever came of it may count as a failure, until it is seen to be a success.
    this.#mayFail[owner] = true;
    this.#inFlightOf[owner] = (this.#inFlightOf[owner] as number) - 1;
  }

  #begin(owner: number): void {
    this.generation[owner] = (this.generation[owner] as number) + 1;
    this.#begun[owner] = (this.#begun[owner] as number) + 1;
    this.#held[owner] = undefined;
  }

  #forgotten(owner: number): void {
    this.#begin(owner);
    this.#rejected[owner] = NONE;
    this.#pausedUntilMs[owner] = undefined;
    this.#isFailing[owner] = false;
  }

  #evicted(evictions: number): void {
    this.#evictions = evictions;
    this.#held.fill(undefined);
    this.#pausedUntilMs.fill(undefined);
    this.#isFailing.fill(false);
  }

  /** Nothing is queued: for owners with nothing in flight or awaited, all earlier generations are over. */
  #idle(): void {
    for (let owner = 0; owner < this.keys.length; owner++) {
      if (this.#inFlightOf[owner] === 0) this.#begun[owner] = 0;
    }
  }

  /** Without evictions, what is remembered of an owner stays until it is forgotten. */
  get #roomy(): boolean {
    return this.options.maxOwners >= this.keys.length;
  }

  #nowHeld(owner: number, token: AccessToken): void {
    const { wallMs, monotonicMs } = this.world.clock;
    if (!this.#roomy || this.registry.peek(this.keys[owner] as string) !== token) return;
    const leftMs = token.expiresAtMs - wallMs;
    this.#held[owner] = { value: token.value, untilWallMs: token.expiresAtMs, untilMs: monotonicMs + leftMs - 1 };
  }

  #mustStillHold(owner: number, value: string | undefined): void {
    const held = this.#held[owner];
    if (!held || this.closed) return;
    const { wallMs, monotonicMs } = this.world.clock;
    if (wallMs >= held.untilWallMs || monotonicMs >= held.untilMs) this.#held[owner] = undefined;
    else if (value !== held.value) this.#broken('a usable token was lost');
  }

  /** Notes whether a request begun now is one of an owner known to fail: while no gate pauses, the failure is its own. */
  #noteFailing(owner: number): void {
    const { phase, code } = this.registry.describe(this.keys[owner] as string);
    if (phase === 'requesting') return;
    this.#isFailing[owner] = !this.gates.isSeen && code !== undefined && (phase === 'empty' || phase === 'expired');
  }

  /** Notes the pause of an owner whose request has failed, where it is its own. */
  #notePause(owner: number, pauses: { client?: unknown; endpoint?: unknown }): void {
    if (pauses.client || pauses.endpoint || !this.#roomy) return;
    const { retryAtMs } = this.registry.describe(this.keys[owner] as string);
    const { wallMs, monotonicMs } = this.world.clock;
    if (retryAtMs === undefined) return;
    const leftMs = retryAtMs - wallMs;
    if (leftMs > Math.max(this.options.longestPauseMs, 3_600_000) + 1) this.#broken(`a pause of ${leftMs} ms`);
    this.#pausedUntilMs[owner] = monotonicMs + leftMs;
  }

  #broken(what: string): void {
    this.world.broken(`registry ${this.index}: ${what}`);
  }
}

/** The contract's reading of a lifetime, in words of its own. */
function lifetimeThatCounts(stated: unknown): number {
  const tenYearsMs = 10 * 365 * 24 * 3_600_000;
  if (stated === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
  return typeof stated === 'number' && stated > 0 && stated <= tenYearsMs ? stated : 300_000;
}
