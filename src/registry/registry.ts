/**
 * The registry: which owner has which token, and what happens when somebody asks for one. It obeys what `slot.ts`
 * decides, leaves the making of requests to `requests.ts`, and is the only one that changes a slot besides.
 */

import { LRUCache } from 'lru-cache';
import type { CallRules, OwnerFetch, OwnerFetchOptions } from '../calling/owner-fetch.ts';
import { callRules, ownerFetchFor, rulesOfSource } from '../calling/owner-fetch.ts';
import { type Instant, instantReader, onWallClock, settledWithin, startTimer } from '../clock.ts';
import { Diagnostics } from '../diagnostics.ts';
import type { TokenAge } from '../expiry/lifetime.ts';
import type { Pause } from '../failures/backoff.ts';
import { FailureScopes } from '../failures/failure-scopes.ts';
import { pauseAfterRejections, refusal } from '../failures/refusals.ts';
import { AccessToken } from '../token.ts';
import { accessKeyOf } from './access-key.ts';
import { Fingerprints } from './fingerprints.ts';
import { closedError, Requests } from './flights.ts';
import { ageOf } from './held-token.ts';
import {
  checkSignal,
  clockOf,
  closeTimeoutMs,
  type OwnerTokenRegistryOptions,
  type RegistrySettings,
  registrySettings,
} from './options.ts';
import {
  createSlot,
  decide,
  forgotten,
  type HeldToken,
  isFresh,
  isUsable,
  pauseOf,
  rejected,
  remembered,
  type Slot,
  standingOf,
} from './slot.ts';
import { countOwners, laterPause, type OwnerState, ownerState, pauseStat, type RegistryStats } from './stats.ts';
import { type WarmUpOptions, type WarmUpReport, warmUp } from './warm-up.ts';

/**
 * Maps each appliance owner's access key to its own access token. Calls for one owner share one token request; calls
 * for different owners share nothing.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-4.4 RFC 6749 §4.4, the client credentials grant}
 */
export class OwnerTokenRegistry implements AsyncDisposable {
  readonly #settings: RegistrySettings;
  readonly #now: () => Instant;
  readonly #diagnostics: Diagnostics;
  readonly #names: Fingerprints;
  readonly #slots: LRUCache<string, Slot>;
  readonly #pauses: FailureScopes;
  readonly #requests: Requests;
  readonly #callRules: CallRules;
  readonly #closing = new AbortController();
  readonly #counts = { hits: 0, joined: 0, rejections: 0, evictions: 0 };
  #closed: Promise<void> | undefined;

  /** @throws OwnerTokenError `invalid_options`, listing every problem. */
  constructor(options: OwnerTokenRegistryOptions) {
    const settings = registrySettings(options);
    const { source, expiry, concurrency, maxQueued, maxQueueMs, refreshWindow, random, clock } = settings;
    this.#settings = settings;
    this.#now = instantReader(clock);
    this.#diagnostics = new Diagnostics(settings.logger);
    this.#names = new Fingerprints(settings.fingerprintKey, settings.ownerLabel);
    this.#callRules = callRules(settings.calls, rulesOfSource(source.origin));
    this.#slots = new LRUCache<string, Slot>({
      max: settings.maxOwners,
      disposeAfter: (slot, _accessKey, reason) => this.#disposed(slot, reason),
    });
    this.#pauses = new FailureScopes({ ranges: settings.pauses, concurrency, random });
    this.#requests = new Requests({
      source,
      rules: { policy: expiry, refreshWindow, random, fingerprints: this.#names },
      pauses: this.#pauses,
      diagnostics: this.#diagnostics,
      now: this.#now,
      clock,
      turns: {
        ...{ concurrency, maxQueued, maxQueueMs },
        monotonic: () => clockOf(settings).monotonic(),
        startTimer: (fn, ms) => startTimer(clock, fn, ms),
      },
      keep: (accessKey, slot) => this.#keep(accessKey, slot),
    });
  }

  /**
   * The owner's token.
   *
   * 1. A held token before its refresh point is served at once.
   * 2. Past the refresh point it is served too, and one refresh starts, unless one is under way or a pause in force.
   * 3. With no usable token and a request under way, the caller joins it and shares its outcome.
   * 4. With no usable token and a pause in force, it rejects at once with the remembered error and its `retryAtMs`.
   * 5. Otherwise it waits for its turn and makes one request.
   *
   * @param options `signal` detaches this caller alone, at once, with `signal.reason`.
   * @throws OwnerTokenError with any `code` but those of options; nothing is thrown synchronously.
   */
  getToken(accessKey: string, options?: { signal?: AbortSignal }): Promise<AccessToken> {
    const signal = options?.signal;
    if (signal?.aborted) return Promise.reject(signal.reason);
    const slot = this.#slots.get(accessKey);
    try {
      const now = this.#now();
      if (!slot || !isFresh(slot, now)) return this.#answer(accessKey, slot, now, signal);
      this.#counts.hits++;
      const { served } = slot;
      if (this.#diagnostics.hearsLookups) this.#diagnostics.lookup(slot.owner, 'serve');
      return served;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** The token held for this owner, if it is usable now; never asks for one. */
  peek(accessKey: string): AccessToken | undefined {
    const held = this.#slotOf(accessKeyOf(accessKey))?.held;
    return isUsable(held, this.#now()) ? held.token : undefined;
  }

  /**
   * Reports that the service refused this token. It is not given out again, as far as is remembered: the last four of
   * each owner. A late report of an older token leaves the newer one alone.
   *
   * @returns whether that very token was held, and is dropped now.
   */
  reject(accessKey: string, token: AccessToken | string): boolean {
    const slot = this.#slotOf(accessKeyOf(accessKey));
    const value = token instanceof AccessToken ? token.value : token;
    if (!slot || typeof value !== 'string') return false;
    const now = this.#now();
    const { held } = slot;
    const wasHeld = held?.token.value === value;
    const known = wasHeld ? held.token : token instanceof AccessToken ? token : undefined;
    const age = known && ageOf(slot, known, now);
    const isNews = remembered(slot, this.#names.ofToken(value));
    if (wasHeld) this.#dropRejected(slot, held, now);
    else if (!held && known) slot.lastRejected = known;
    if (age && isNews) this.#tellPolicy('rejected', age);
    this.#diagnostics.rejected({ owner: slot.owner, token: this.#names.ofToken(value), wasHeld });
    return wasHeld;
  }

  /** Reports that a call with this token succeeded: evidence for a policy that learns. */
  accept(accessKey: string, token: AccessToken): void {
    accessKeyOf(accessKey);
    if (!this.#settings.expiry.accepted || !(token instanceof AccessToken)) return;
    const slot = this.#slotOf(accessKey);
    if (slot) this.#tellPolicy('accepted', ageOf(slot, token, this.#now()));
  }

  /**
   * The owner is gone: drops all that is held for it, its pause too. A request under way still settles those who wait
   * for it, and is not kept.
   *
   * @returns whether a token, a pause or a request was held.
   */
  forget(accessKey: string): boolean {
    const slot = this.#slotOf(accessKeyOf(accessKey));
    const wasUnderWay = this.#requests.disown(accessKey);
    const wasHeld = slot !== undefined && forgotten(slot);
    this.#slots.delete(accessKey);
    return wasHeld || wasUnderWay;
  }

  /** {@link forget} for every owner: when a secret has leaked, say. */
  forgetAll(): void {
    for (const accessKey of [...this.#slots.keys(), ...this.#requests.owners()]) this.forget(accessKey);
  }

  /** What is known of this owner: "which customer is this, and why does it not work?" */
  describe(accessKey: string): OwnerState {
    const slot = this.#slotOf(accessKeyOf(accessKey)) ?? createSlot('');
    const now = this.#now();
    const pause = this.#pauses.pauseFor(now.monotonicMs, standingOf(slot));
    const around = { underWay: this.#requests.isUnderWay(accessKey), paused: pause !== undefined };
    return ownerState(slot, now, around, pause);
  }

  /** What logs, errors and reports call this owner: its label if `ownerLabel` gives one, else a keyed digest. */
  fingerprint(accessKey: string): string {
    return this.#slotOf(accessKeyOf(accessKey))?.owner ?? this.#names.ofOwner(accessKey);
  }

  /**
   * A `fetch` that calls on this owner's behalf; see `docs/calling.md`.
   *
   * @throws OwnerTokenError `invalid_options`
   */
  ownerFetch(accessKey: string, options?: OwnerFetchOptions): OwnerFetch {
    return ownerFetchFor(this, accessKeyOf(accessKey), callRules(options, this.#callRules));
  }

  /** Obtains tokens for many owners before they are needed, only as many at once as `concurrency` allows. */
  warmUp(accessKeys: Iterable<string> | AsyncIterable<string>, options?: WarmUpOptions): Promise<WarmUpReport> {
    const port = {
      getToken: (accessKey: string, { signal }: { signal: AbortSignal }) => this.getToken(accessKey, { signal }),
      parallel: this.#settings.concurrency,
      closing: this.#closing.signal,
      clock: clockOf(this.#settings),
    };
    return warmUp(port, accessKeys, options);
  }

  /** Lifts that owner's pause, or every pause, now: when the cause is known to be mended. */
  resume(accessKey?: string): void {
    const slots = accessKey === undefined ? this.#slots.values() : [this.#slotOf(accessKeyOf(accessKey))];
    for (const slot of slots) {
      if (!slot?.failure) continue;
      slot.failure = undefined;
      slot.quickRejections = 0;
      this.#diagnostics.lifted('owner', slot.owner);
    }
    if (accessKey !== undefined) return;
    for (const scope of this.#pauses.resume()) this.#diagnostics.lifted(scope);
    this.#requests.resume();
  }

  /** Plain numbers, no secrets. */
  stats(): RegistryStats {
    const now = this.#now();
    const { usable, pausing } = countOwners(this.#slots.values(), now);
    const { inFlight, queued, waiting, counts } = this.#requests;
    const client = this.#pauses.state('client');
    const endpoint = this.#pauses.state('endpoint');
    const pauses = {
      owners: pausing,
      ...(client && { client: pauseStat(client, now) }),
      ...(endpoint && { endpoint: pauseStat(endpoint, now) }),
    };
    return { owners: this.#slots.size, usable, inFlight, queued, waiting, ...this.#counts, ...counts, pauses };
  }

  /**
   * Ends everything: callers get `closed`, requests under way are aborted, what is held is dropped, and the source is
   * closed. Calling it again gives the same promise.
   *
   * @param options `timeoutMs`: how long it waits for requests under way, and for the source; 0 to 3,600,000,
   * default 5,000.
   */
  close(options: { timeoutMs?: number } = {}): Promise<void> {
    try {
      this.#closed ??= this.#close(closeTimeoutMs(options));
      return this.#closed;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Everything but a plain hit. */
  #answer(accessKey: string, found: Slot | undefined, now: Instant, signal?: AbortSignal): Promise<AccessToken> {
    accessKeyOf(accessKey);
    const slot = found ?? this.#requests.slotOf(accessKey) ?? createSlot(this.#names.ofOwner(accessKey));
    if (this.#closing.signal.aborted) throw closedError(slot.owner, now);
    checkSignal(signal);
    const pause = this.#pauses.pauseFor(now.monotonicMs, standingOf(slot));
    const around = { underWay: this.#requests.isUnderWay(accessKey), paused: pause !== undefined };
    const decision = decide(slot, now, around);
    try {
      switch (decision) {
        case 'serve-and-refresh':
          this.#requests.refresh(accessKey, slot);
          return this.#serve(slot);
        case 'serve':
          return this.#serve(slot);
        case 'wait':
          this.#counts.joined++;
          return this.#requests.join(accessKey, signal);
        case 'refuse':
          throw refusal(laterPause(pause, pauseOf(slot, now)) as Pause, slot.owner, now);
        case 'request':
          return this.#requests.begin(accessKey, slot, signal);
      }
    } finally {
      // Told once it is done: a listener that calls back in must not find it decided and still to be done.
      this.#diagnostics.lookup(slot.owner, decision);
    }
  }

  #serve(slot: Slot): Promise<AccessToken> {
    this.#counts.hits++;
    return (slot.held as HeldToken).served;
  }

  /** The slot of this owner, wherever it is: one that was evicted lives on while its request is under way. */
  #slotOf(accessKey: string): Slot | undefined {
    return this.#slots.peek(accessKey) ?? this.#requests.slotOf(accessKey);
  }

  #keep(accessKey: string, slot: Slot): void {
    if (!this.#closing.signal.aborted) this.#slots.set(accessKey, slot);
  }

  #disposed(slot: Slot, reason: string): void {
    if (reason !== 'evict') return;
    this.#counts.evictions++;
    this.#diagnostics.evicted(slot.owner);
  }

  /** Drops the held token; after a few in a row that were refused while fresh the owner pauses. */
  #dropRejected(slot: Slot, held: HeldToken, now: Instant): void {
    this.#counts.rejections++;
    rejected(slot, held, now);
    const { pauses, random } = this.#settings;
    const pause = pauseAfterRejections(slot.owner, slot.quickRejections, pauses.owner, now, random);
    if (!pause) return;
    slot.failure = pause;
    const when = { code: pause.error.code, retryAtMs: onWallClock(pause.retryAtMonotonicMs, now) };
    this.#diagnostics.paused({ scope: 'owner', owner: slot.owner, ...when });
  }

  #tellPolicy(what: 'accepted' | 'rejected', age: TokenAge): void {
    try {
      this.#settings.expiry[what]?.(age);
    } catch (thrown) {
      this.#diagnostics.hookFailed(`expiry.${what}`, thrown);
    }
  }

  async #close(timeoutMs: number): Promise<void> {
    this.#closing.abort(closedError(undefined, this.#now()));
    this.#slots.clear();
    const abandoned = await this.#requests.close(timeoutMs);
    const { source, clock } = this.#settings;
    const sourceClosed = (async () => source.close?.())();
    await settledWithin(clock, timeoutMs, sourceClosed).catch((thrown) =>
      this.#diagnostics.hookFailed('source.close', thrown),
    );
    this.#diagnostics.closed(abandoned);
  }
}
