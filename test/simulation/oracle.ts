/**
 * The oracle of one registry: makes the calls, keeps its own accounts and checks everything the registry does against the
 * contract. It believes the registry only where it cannot know better; where it cannot know at all, it does not complain.
 */

import {
  AccessToken,
  type FailureScope,
  OwnerTokenError,
  type OwnerTokenRegistry,
  type TokenRequest,
} from '../../src/index.ts';
import { CircuitWatch } from './circuit-watch.ts';
import type { Call, Mark, WatchedOptions, WorldView } from './observed.ts';
import { RejectionAccount } from './rejection-account.ts';
import { RequestAccount } from './request-account.ts';
import type { Asked } from './service.ts';
import { TokenAccount } from './token-account.ts';

/** Canaries are queued even if the queue is full. */
const MOST_CANARIES_QUEUED = 2;
/** A failed request is sent again after this time at most, which counts as no waiting. */
const LONGEST_REST_MS = 150;
/** Where a rate limits requests, no call waits longer for its turn while its owner has a token, even a rejected one. */
const LONGEST_WAIT_WITH_TOKEN_MS = 1_000;
/** The pace is forgotten this long after the last failure. */
const LONGEST_PACED_MS = 120_000;

/** A request that takes longer than its limit, and more, says nothing: the process stood still, or the wall clock was set forward, which looks the same. */
const STANDSTILL_MS = 1.1 * 30_000 + 1_000;

export class Oracle {
  readonly world: WorldView;
  readonly index: number;
  readonly keys: readonly string[];
  readonly options: WatchedOptions;
  readonly pending = new Set<Call>();
  registry!: OwnerTokenRegistry;
  closed = false;
  readonly #circuits: CircuitWatch;
  readonly #tokens: TokenAccount;
  readonly #requests: RequestAccount;
  readonly #rejections: RejectionAccount;
  #names: string[] = [];
  /** Tokens whose source says that it requested them long ago, which is no evidence about the service now. */
  readonly #datedLongAgo = new Set<string>();
  #lastFailureMs = Number.NEGATIVE_INFINITY;
  /** Raised by everything that happens: what a hook does within a call may change that call's effect. */
  #events = 0;
  /** The last failure since the world was last quiet. */
  #lastFailure: { readonly owner: number; readonly leastMs: number } | undefined;
  #warming = 0;
  #evictions = 0;

  constructor(world: WorldView, index: number, keys: readonly string[], options: WatchedOptions) {
    this.world = world;
    this.index = index;
    this.keys = keys;
    this.options = options;
    const broken = (what: string) => this.#broken(what);
    this.#circuits = new CircuitWatch(world, keys.length, options, broken);
    this.#tokens = new TokenAccount(world, keys.length, options, broken);
    this.#requests = new RequestAccount(world, keys.length, options, broken);
    this.#rejections = new RejectionAccount(world, keys.length, options);
  }

  watch(registry: OwnerTokenRegistry): void {
    this.registry = registry;
    this.#names = this.keys.map((key) => registry.fingerprint(key));
  }

  ownerOf(accessKey: string): number {
    const owner = this.keys.indexOf(accessKey);
    if (owner < 0) this.#broken('a request for an access key that nobody called with');
    return owner;
  }

  generationOf(owner: number): number {
    return this.#tokens.generation[owner] as number;
  }

  get inFlight(): number {
    return this.#requests.inFlight;
  }

  /** Timers: one for the scheduler, one for each request, and a second one for a queued request with a rejected token. */
  get mostTimers(): number {
    return 1 + this.inFlight + (this.closed ? 0 : 2 * this.registry.stats().queued);
  }

  // What callers do.

  call(owner: number, controller?: AbortController): Call {
    this.#events++;
    const { clock, excusedMs, step } = this.world;
    const key = this.#key(owner);
    const held = this.registry.peek(key)?.value;
    if (!this.closed) this.#tokens.checkStillServed(owner, held);
    const call: Call = {
      owner,
      controller,
      held,
      step,
      over: false,
      token: undefined,
      aborted: controller?.signal.aborted === true,
      generation: this.generationOf(owner),
      sinceMs: clock.monotonicMs,
      excusedMs,
      busyMs: this.#requests.busyMs(owner),
      livesUntilMs: this.#tokens.livesUntilMs(owner),
    };
    this.pending.add(call);
    try {
      const outcome = this.registry.getToken(key, controller && { signal: controller.signal });
      outcome.then(
        (token) => this.#got(call, token),
        (error: unknown) => this.#refused(call, error),
      );
    } catch (thrown) {
      this.#broken(`getToken threw instead of rejecting: ${String(thrown)}`);
    }
    return call;
  }

  accept(owner: number, token: AccessToken): void {
    const key = this.#key(owner);
    const isHeld = !this.closed && this.#tokens.isHeld(owner, token);
    this.#rejections.accepted(owner, token.value);
    const event = ++this.#events;
    this.registry.accept(key, token);
    if (!isHeld || event !== this.#events) return;
    if (this.registry.peek(key) !== token) this.#broken('an accepted call did not restore its token');
    this.#tokens.mustServe(owner);
  }

  reject(owner: number, token: AccessToken | string): void {
    const key = this.#key(owner);
    const value = token instanceof AccessToken ? token.value : token;
    const before = this.registry.peek(key);
    const inFlight = this.#requests.inFlightOf(owner);
    const verdict = this.closed ? undefined : this.#rejections.rejected(owner, value, before?.value, inFlight);
    const isFree = this.#isFree(owner);
    this.#tokens.rejected(owner, value);
    const event = ++this.#events;
    const isReplaced = this.registry.reject(key, token);
    if (before && before.value !== value && isReplaced) this.#broken('a rejection of another token counted');
    if (isReplaced) this.#circuits.rejected(owner);
    if (event !== this.#events || !verdict) return;
    const after = this.registry.peek(key)?.value;
    if (verdict === 'replaced') {
      if (before && !isReplaced) this.#broken('the rejection of an accepted token did not count');
      if (isFree && after !== undefined) this.#broken('a rejected token is served where a newer one can be had');
    } else {
      this.#tokens.mustServe(owner, verdict.keptForMs);
      this.#tokens.checkStillServed(owner, after);
    }
  }

  forget(owner: number): void {
    this.registry.forget(this.#key(owner));
    this.#forgotten(owner);
  }

  forgetAll(): void {
    this.registry.forgetAll();
    for (const owner of this.keys.keys()) this.#forgotten(owner);
  }

  resume(owner?: number): void {
    this.#events++;
    for (const each of owner === undefined ? this.keys.keys() : [owner]) {
      this.#tokens.resumed(each);
      this.#rejections.knowsNothing(each);
    }
    this.registry.resume(owner === undefined ? undefined : this.keys[owner]);
    if (owner === undefined) {
      this.#circuits.resumed();
      this.#requests.trustNothing();
      this.#requests.paceRestarted();
    } else this.#requests.resumed(owner);
  }

  /** Uses everything that only reports. */
  look(owner: number): void {
    const key = this.#key(owner);
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
      const ready = Math.min(this.keys.length - report.failedCount, this.options.maxOwners);
      if (report.ready !== ready) this.#broken('a warm-up lost owners');
    } finally {
      this.#warming--;
    }
  }

  /** How long until this owner's next attempt. */
  waitMs(owner: number): number {
    const { retryAtMs } = this.registry.describe(this.#key(owner));
    return retryAtMs === undefined ? 1_000 : Math.max(1, retryAtMs - this.world.clock.wallMs);
  }

  close(timeoutMs: number): Promise<void> {
    this.closed = true;
    this.#events++;
    this.#tokens.holdsNothing();
    return this.registry.close({ timeoutMs });
  }

  // What the service sees.

  /** A request arrives. */
  asks(owner: number, request: TokenRequest): Mark {
    this.#events++;
    const stats = this.registry.stats();
    const { monotonicMs: sentMs, timelineMs: sentTimelineMs } = this.world.clock;
    const mark = { owner, sentMs, sentTimelineMs, mayBeTrial: this.#circuits.mayBeTrial(stats) };
    this.#tokens.requested(owner, request, mark.mayBeTrial);
    this.#rejections.requested(owner, request);
    this.#requests.sent(mark);
    // A hook may close the registry while the request is sent; the source then sees an aborted signal.
    if (this.closed && !request.signal.aborted) this.#broken('a request after close');
    this.#circuits.asks(mark, stats);
    return mark;
  }

  /** A request failed, or its response contained no token. @param given the scope at which its source put the failure. */
  answered(owner: number, error: unknown, mark: Mark, given?: FailureScope): void {
    this.#lastFailureMs = this.world.clock.monotonicMs;
    const mayBeSecond = this.#requests.mayBeSecond(mark);
    this.#requests.ended(owner, mark);
    const calls = [...this.pending].filter((call) => call.owner === owner);
    const hasStoodStill = this.world.clock.timelineMs - mark.sentTimelineMs > STANDSTILL_MS;
    this.#requests.failed(owner, calls, hasStoodStill);
    const isOwners = !mark.mayBeTrial && this.#requests.isOfOneGeneration(owner);
    const leastMs = (isOwners && error instanceof OwnerTokenError && error.retryAfterMs) || 0;
    this.#lastFailure = { owner, leastMs };
    // After an outcome that says nothing the source is asked once more; only the second outcome counts.
    const isAskedAgain = this.#requests.isAskedAgain(owner);
    if (isAskedAgain && !mayBeSecond) this.#circuits.discarded(mark);
    else this.#circuits.failed(mark, error, given, !isAskedAgain);
  }

  granted(asked: Asked, value: string): void {
    const { owner, mark } = asked;
    this.#requests.ended(owner, mark);
    this.#circuits.granted(mark, this.#requests.isOfOneGeneration(owner));
    this.#tokens.issued(asked, value);
    this.#rejections.issued(owner, value);
    if (asked.fault === 'dead-on-arrival') this.#datedLongAgo.add(value);
    this.#requests.issued(owner);
  }

  /** What the expiry policy answered. */
  stated(value: string, lifetimeMs: unknown): void {
    this.#tokens.stated(value, lifetimeMs);
  }

  // What is checked when nothing is left to run.

  checkQuiet(): void {
    const { clock } = this.world;
    const { maxOwners, maxQueued, concurrency, maxQueueMs, timeoutMs } = this.options;
    const first = this.pending.values().next().value;
    const mostMs = maxQueueMs + LONGEST_REST_MS + 2 * timeoutMs + 1_000;
    const excusedMs = this.world.excusedMs - (first?.excusedMs ?? 0);
    if (first && clock.monotonicMs > first.sinceMs + mostMs + excusedMs)
      this.#broken('a caller waits beyond its deadline');
    const stats = this.registry.stats();
    if (stats.usable > maxOwners) this.#broken(`${stats.usable} owners have a token, ${maxOwners} at most`);
    if (stats.owners > 2 * maxOwners) this.#broken(`${stats.owners} owners are held, twice ${maxOwners} at most`);
    const mostQueued = maxQueued + this.#requests.mayQueueAgain + MOST_CANARIES_QUEUED;
    if (stats.queued > mostQueued) this.#broken(`${stats.queued} owners are queued, ${mostQueued} at most`);
    if (stats.inFlight > 2 * concurrency) this.#broken('more in flight than the concurrency');
    if (stats.inFlight !== this.inFlight)
      this.#broken(`${stats.inFlight} in flight are reported, ${this.inFlight} are`);
    if (this.closed) {
      if (this.pending.size > 0) this.#broken('a caller still waits after close');
      if (stats.owners > 0 || stats.queued > 0) this.#broken('a closed registry holds something');
      return;
    }
    const { size } = this.pending;
    const isReported = this.#warming > 0 ? stats.waiting >= size : stats.waiting === size;
    if (!isReported) this.#broken(`${stats.waiting} waiting are reported, ${size} are`);
    if (stats.evictions !== this.#evictions) this.#evicted(stats.evictions);
    if (this.#lastFailure) this.#notePause(this.#lastFailure, stats.pauses);
    this.#lastFailure = undefined;
    const wasOpen = this.#circuits.isOpen;
    this.#circuits.checkQuiet(stats);
    if (wasOpen && !this.#circuits.isOpen) this.#requests.paceRestarted();
    if (stats.queued === 0) this.#requests.nothingQueued();
  }

  // Outcomes of calls.

  #got(call: Call, token: AccessToken): void {
    this.#over(call);
    call.token = token;
    const { owner } = call;
    if (!(token instanceof AccessToken)) {
      this.#broken('getToken gave no token');
      return;
    }
    const isCurrent = this.#tokens.checkGiven(call, token);
    // A caller may have been given a rejected token because no newer one could be had, or one that its source had stored.
    const isNew = !this.#tokens.wasRejected(token.value) && !this.#datedLongAgo.has(token.value);
    if (call.held === undefined && isNew) {
      // A request that was queued when its owner was forgotten serves its callers, and leaves nothing behind.
      const wasForgotten = call.generation < (this.#tokens.generation[owner] as number);
      this.#circuits.delivered(owner, isCurrent && !wasForgotten);
      if (isCurrent) this.#requests.succeeded(owner);
      if (this.registry.peek(this.#key(owner)) === token) {
        this.#tokens.nowHeld(owner, token);
        this.#rejections.arrived(owner, token.value);
      }
    }
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
      if (!this.closed) this.#broken('an open registry refused a call as closed');
      return;
    }
    if (call.held !== undefined) this.#broken(`${error.code} hides a usable token`);
    if (error.code === 'token_rejected') this.#broken('a call failed because of a rejection');
    // A call from before its owner was forgotten does not share what came after.
    const isCurrent = call.generation === this.generationOf(call.owner);
    if (isCurrent && this.#tokens.livesUntilMs(call.owner) > this.world.clock.timelineMs)
      this.#broken(`${error.code} where a rejected token lives`);
    if (error.owner !== this.#names[call.owner]) this.#broken('an error names another owner');
    if (error.retryAtMs !== undefined && !(error.retryAtMs >= this.world.clock.wallMs + 99))
      this.#broken(`an error says to come again in ${error.retryAtMs - this.world.clock.wallMs} ms`);
  }

  #over(call: Call): void {
    if (call.over) this.#broken('a call settled twice');
    call.over = true;
    this.pending.delete(call);
    const { owner, sinceMs, busyMs, excusedMs } = call;
    const { clock } = this.world;
    const excused = this.world.excusedMs - excusedMs;
    const waitedMs = clock.monotonicMs - sinceMs - excused - (this.#requests.busyMs(owner) - busyMs);
    const { maxQueueMs, requestsPerSecond } = this.options;
    const hasToken = call.livesUntilMs > clock.timelineMs && call.generation === this.generationOf(owner);
    const isPaced = requestsPerSecond !== undefined && !this.closed && !this.#requests.wasFullSince(sinceMs);
    const mostMs = hasToken && isPaced ? Math.min(maxQueueMs, LONGEST_WAIT_WITH_TOKEN_MS) : maxQueueMs;
    if (waitedMs > mostMs + LONGEST_REST_MS + 2) this.#broken(`a call waited ${waitedMs} ms for its turn`);
  }

  // Accounts.

  /** Whether a request for this owner could certainly be sent at once. */
  #isFree(owner: number): boolean {
    const { queued, inFlight, pauses } = this.registry.stats();
    const isPaused = this.registry.describe(this.#key(owner)).retryAtMs !== undefined;
    const mayBePaced = this.world.clock.monotonicMs < this.#lastFailureMs + LONGEST_PACED_MS;
    const isOpen = pauses.client || pauses.endpoint;
    return !isOpen && !isPaused && !mayBePaced && !this.options.requestsPerSecond && queued + inFlight === 0;
  }

  #forgotten(owner: number): void {
    this.#events++;
    this.#rejections.knowsNothing(owner);
    this.#circuits.forgotten(owner);
    this.#tokens.forgotten(owner);
    this.#requests.beginGeneration(owner);
    this.#requests.resumed(owner);
  }

  #evicted(evictions: number): void {
    this.#evictions = evictions;
    this.#circuits.evicted();
    this.#tokens.holdsNothing();
    this.#rejections.knowsNothingOfAll();
    this.#requests.trustNothing();
  }

  /** Notes the backoff of an owner whose request failed, where no circuit is open. */
  #notePause(
    { owner, leastMs }: { readonly owner: number; readonly leastMs: number },
    pauses: { client?: unknown; endpoint?: unknown },
  ): void {
    if (pauses.client || pauses.endpoint || this.options.maxOwners < this.keys.length) return;
    const { code, retryAtMs } = this.registry.describe(this.#key(owner));
    const { wallMs, monotonicMs } = this.world.clock;
    // While a token is kept, this is when that ends.
    if (retryAtMs === undefined || code === 'token_rejected') return;
    const leftMs = retryAtMs - wallMs;
    if (leftMs > Math.max(this.options.longestPauseMs, 3_600_000) + 1) this.#broken(`a pause of ${leftMs} ms`);
    // The first in a row counts up to a minute.
    if (this.#circuits.isAlone && leftMs < Math.min(leastMs, 60_000) - 1.5)
      this.#broken(`the service asked owner ${owner} for ${leastMs} ms, its pause has ${leftMs} ms left`);
    this.#requests.paused(owner, monotonicMs + leftMs);
  }

  #key(owner: number): string {
    return this.keys[owner] as string;
  }

  #broken(what: string): void {
    this.world.broken(`registry ${this.index}: ${what}`);
  }
}
