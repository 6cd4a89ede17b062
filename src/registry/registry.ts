/**
 * The registry maps owners to tokens and answers calls. `slot.ts` decides what a call gets, and `requests.ts` makes the
 * requests. Only these requests and the registry change a slot.
 */

import { callRules, type OwnerFetch, type OwnerFetchOptions, ownerFetchFor } from '../calling/owner-fetch.ts';
import type { Instant, Time } from '../clock.ts';
import { property } from '../own-property.ts';
import { Diagnostics, lookups } from '../reporting/diagnostics.ts';
import { AccessToken } from '../token.ts';
import {
  checkSignal,
  closeTimeoutMs,
  invalidSignal,
  minValidityMsOf,
  type OwnerTokenRegistryOptions,
  type RegistrySettings,
  registrySettings,
} from './options.ts';
import { CallOutcomes } from './owners/call-outcomes.ts';
import { isTooShort, lasts } from './owners/lasting-tokens.ts';
import { OwnerTable } from './owners/owner-table.ts';
import { checkedAccessKey, decide, dropEnded, Slot } from './owners/slot.ts';
import {
  eachOwner,
  type KnownOwner,
  type OwnerReport,
  type OwnerState,
  type OwnersOptions,
  ownerReports,
  ownerState,
} from './reports.ts';
import type { Flight } from './requests/flight.ts';
import { Requests } from './requests/requests.ts';
import { closedError } from './requests/source-call.ts';
import { type RegistryStats, registryStats } from './stats.ts';
import { type WarmUpOptions, type WarmUpReport, warmUp } from './warm-up.ts';

/**
 * Maps each appliance owner's access key to its own access token. Calls for one owner share one token request; calls
 * for different owners share nothing.
 *
 * @example
 * ```ts
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
 * await using tokens = new OwnerTokenRegistry({ source });
 * const { authorization } = await tokens.getToken(accessKey);
 * const answer = await fetch(`${baseUrl}/echo`, { headers: { authorization } });
 * console.log(answer.status); // → 200
 * ```
 * @see {@link https://www.rfc-editor.org/rfc/rfc6749#section-4.4 RFC 6749 §4.4, the client credentials grant}
 */
export class OwnerTokenRegistry implements AsyncDisposable {
  readonly #settings: RegistrySettings;
  readonly #time: Time;
  readonly #diagnostics: Diagnostics;
  readonly #owners: OwnerTable;
  readonly #requests: Requests;
  readonly #callOutcomes: CallOutcomes;
  readonly #closing = new AbortController();
  readonly #counts = { hits: 0, joined: 0 };
  #closed: Promise<void> | undefined;

  /** @throws OwnerTokenError `invalid_options`, listing every problem. */
  constructor(options: OwnerTokenRegistryOptions) {
    const settings = registrySettings(options);
    this.#settings = settings;
    this.#time = settings.time;
    this.#diagnostics = new Diagnostics(settings);
    settings.fingerprints.onIgnoredLabel = (owner) => this.#diagnostics.emit('label.ignored', () => ({ owner }));
    this.#owners = new OwnerTable(settings.maxOwners, this.#diagnostics);
    this.#requests = new Requests(settings, this.#owners, this.#diagnostics);
    this.#callOutcomes = new CallOutcomes(settings, this.#owners, this.#diagnostics);
    if (property(settings.source, 'listen') === undefined) return;
    settings.source.listen?.({
      rejected: (accessKey, isToken) => {
        const slot = this.#owners.peek(accessKey);
        if (slot?.held && isToken(slot.held.value)) this.#callOutcomes.rejected(slot, slot.held, true);
      },
      recovered: (accessKey) => {
        const slot = this.#owners.peek(accessKey);
        if (slot) this.#owners.endBackoff(slot);
        this.#requests.scheduler.liftCircuit();
      },
      forgotten: (accessKey) => void this.#requests.forget(accessKey),
      isKept: (accessKey) => this.#owners.peek(accessKey) !== undefined,
      defaults: settings.sourceDefaults,
    });
  }

  /** Names the registry in logs, diagnostics and metrics. */
  get name(): string {
    return this.#settings.name;
  }

  /**
   * The owner's token.
   *
   * 1. A cached token before its refresh point is served at once.
   * 2. Past the refresh point it is served too, and one background request starts, unless one is in flight or a pause
   *    is in force.
   * 3. With no usable token and a request in flight, the caller joins it and shares its outcome.
   * 4. With no usable token and a pause in force, it rejects at once with the cached error and its `retryAtMs`. If the circuit's
   *    pause ends within a second, it waits instead.
   * 5. Otherwise it queues and makes one request.
   *
   * A token that was reported by {@link reject} is not usable: the call waits for the answer to one request for a newer
   * one. If the call would be refused or fail, it gets the rejected token instead; also if it is queued for over a second while
   * a rate limits requests, or after several tokens in a row were rejected.
   *
   * @param options `minValidityMs`, 0 to 315,360,000,000 (ten years), default 0: for this call alone, a token with less life left is
   * not usable, so that a newer one is requested first. If that fails, the call fails too, and the token stays for other calls. If
   * a new token does not live longer either, the error is `invalid_response`, and such calls cost no further request until the
   * token is due for a refresh. `signal` rejects this call at once, with `signal.reason`; other callers are not affected.
   * @throws OwnerTokenError as a rejection; nothing is thrown synchronously.
   */
  getToken(
    accessKey: string,
    options?: { signal?: AbortSignal | null | undefined; minValidityMs?: number | undefined },
  ): Promise<AccessToken> {
    return options ? this.#getTokenWith(accessKey, options) : this.#getToken(accessKey);
  }

  #getTokenWith(accessKey: string, options: object): Promise<AccessToken> {
    if (options instanceof AbortSignal) return Promise.reject(invalidSignal());
    const signal = (property(options, 'signal') ?? undefined) as AbortSignal | undefined;
    if (signal?.aborted) return Promise.reject(signal.reason);
    const minValidityMs = property(options, 'minValidityMs');
    return minValidityMs === undefined
      ? this.#getToken(accessKey, signal)
      : this.#lastingToken(accessKey, minValidityMs, signal);
  }

  #getToken(accessKey: string, signal?: AbortSignal): Promise<AccessToken> {
    try {
      // Before the lookup: the CPU completes all earlier loads before it reads the clock, so the other order would wait for
      // the cache misses of the lookup.
      const second = this.#time.seconds();
      const token = this.#owners.fresh(accessKey, second);
      // Not `!token`, which would read the promise, and that is rarely in a CPU cache.
      if (token === undefined) return this.#answer(accessKey, signal);
      this.#counts.hits++;
      if (lookups.hasSubscribers) this.#diagnostics.lookup(this.#owners.peek(accessKey) as Slot, 'serve');
      return token;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** The token that a call would get now without waiting for a request; never makes one. */
  peek(accessKey: string): AccessToken | undefined {
    const slot = this.#owners.peek(checkedAccessKey(accessKey));
    if (!slot) return undefined;
    const now = this.#time.now();
    const conditions = this.#requests.conditions(this.#owners.flightOf(accessKey), now);
    return decide(slot, now, conditions).startsWith('serve') ? slot.held : undefined;
  }

  /**
   * Reports that a call with this token got a 401. The next call waits for a newer token; see {@link getToken}. If that one is
   * rejected too, within ten seconds of its arrival and before any {@link accept}, the fault is not the token's: it is kept
   * and served until ten seconds after its arrival, the next one in a row for twice as long, up to `pauses.owner.capMs` and
   * its expiry. Without any `accept` in this registry, only a rejection within a second of the arrival counts, because a
   * token that is rejected later may have worked. A report of an older token does not affect the current one.
   *
   * @returns whether it is the cached token, and is now to be replaced; false for a repeated report.
   */
  reject(accessKey: string, token: AccessToken | string): boolean {
    const slot = this.#owners.peek(checkedAccessKey(accessKey));
    return slot !== undefined && this.#callOutcomes.rejected(slot, token);
  }

  /**
   * Reports that a call with this token succeeded. A rejected token is served again, and a streak of rejections ends. Learning
   * policies are told that this token works, and that the rejected one that it replaced did not.
   */
  accept(accessKey: string, token: AccessToken): void {
    const slot = this.#owners.peek(checkedAccessKey(accessKey));
    if (slot && token instanceof AccessToken) this.#callOutcomes.accepted(slot, token);
  }

  /**
   * Drops everything that is cached for a removed owner, including its pause, with `SharedTokens` in all replicas that have a
   * connected `subscriber`. An in-flight request still settles its callers, but its token is neither stored nor shared.
   *
   * @returns whether this registry had a token, a failure or a request.
   */
  forget(accessKey: string): boolean {
    const wasKnown = this.#requests.forget(checkedAccessKey(accessKey));
    this.#requests.tellSource(accessKey);
    return wasKnown;
  }

  /**
   * {@link forget} for every owner, but here alone: a new client secret gives a fleet's records new names. Takes time in proportion
   * to the requests in flight. The next token allocates the cache again; see `maxOwners`.
   */
  forgetAll(): void {
    this.#requests.forgetAll(this.#owners.clear());
  }

  /** What is known about this owner: "which customer is this, and why does it not work?" */
  describe(accessKey: string): OwnerState {
    const now = this.#time.now();
    return ownerState(this.#slotOf(accessKey), now, this.#requests.conditions(this.#owners.flightOf(accessKey), now));
  }

  /** Failing owners, the worst first, then those whose tokens the API rejects, then those in use. Takes time per owner returned. */
  owners(options: OwnersOptions = {}): OwnerReport[] {
    return ownerReports(this.#reportContext(), options, this.#time.now());
  }

  /**
   * Every known owner, in no order, including those that wait for their first token. For walks in slices, so that no call
   * waits for them: the registry may change between two steps, and an owner that changes may then be missed or come twice.
   */
  eachOwner(): Generator<KnownOwner> {
    const now = () => this.#time.now();
    const fingerprintOf = (accessKey: string) => this.#settings.fingerprints.ofOwner(accessKey);
    return eachOwner({ ...this.#reportContext(), fingerprintOf, now });
  }

  #reportContext() {
    return {
      owners: this.#owners,
      failingSinceMs: this.#diagnostics.failingSinceMs,
      conditionsOf: ({ accessKey }: Slot, now: Instant) =>
        this.#requests.conditions(this.#owners.flightOf(accessKey), now),
    };
  }

  /** The owner's name in logs, errors and reports: its label if `ownerLabel` returns one, or else a keyed digest. */
  fingerprint(accessKey: string): string {
    return this.#slotOf(accessKey).owner;
  }

  /** The slot of a known owner, or an empty one. */
  #slotOf(accessKey: string): Slot {
    return this.#owners.peek(accessKey) ?? new Slot(accessKey, this.#settings.fingerprints);
  }

  /**
   * A `fetch` that calls on this owner's behalf; see `docs/calling.md`.
   *
   * @throws OwnerTokenError `invalid_options`
   */
  ownerFetch(accessKey: string, options?: OwnerFetchOptions): OwnerFetch {
    return ownerFetchFor(this, checkedAccessKey(accessKey), callRules(options, this.#settings.calls));
  }

  /** Obtains tokens for many owners before they are needed, at most `concurrency` at once. */
  warmUp(accessKeys: Iterable<string> | AsyncIterable<string>, options?: WarmUpOptions): Promise<WarmUpReport> {
    const getToken = (accessKey: string, signal: AbortSignal) => this.#answer(accessKey, signal, 0, true);
    const parts = { ...this.#settings, getToken, diagnostics: this.#diagnostics, closing: this.#closing.signal };
    return warmUp(parts, accessKeys, options);
  }

  /**
   * Ends the owner's pause, or all pauses, here and at once, and no longer keeps a rejected token: the next call requests a new one.
   * Call it when the cause is fixed. Takes time in proportion to the number of owners that fail.
   */
  resume(accessKey?: string): void {
    const slot = accessKey === undefined ? undefined : this.#owners.peek(checkedAccessKey(accessKey));
    if (slot) this.#owners.resume(slot);
    if (accessKey !== undefined) return;
    this.#owners.resumeAll();
    this.#requests.scheduler.liftCircuit();
  }

  /** Plain numbers, no secrets. Takes the same time however many owners there are. */
  stats(): RegistryStats {
    const { concurrency } = this.#settings;
    const { rejections } = this.#callOutcomes;
    const counts = { concurrency, ...this.#counts, rejections };
    return registryStats(counts, this.#owners, this.#requests, this.#diagnostics.failingSinceMs, this.#time.now());
  }

  /**
   * Ends everything: callers get `closed`, in-flight requests are aborted, all tokens are dropped, and the source is
   * closed. Calling it again returns the same promise.
   *
   * @param options `timeoutMs`: how long to wait for the requests and the source together, 0 to 3,600,000, default 5,000.
   * The time spent rejecting callers counts towards it, but all callers are rejected even if it is exceeded.
   */
  close(options: { timeoutMs?: number | undefined } = {}): Promise<void> {
    try {
      this.#closed ??= this.#close(closeTimeoutMs(options));
      return this.#closed;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** {@link close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Handles every call that is not certainly a hit on a fresh token. */
  #answer(accessKey: string, signal?: AbortSignal, minValidityMs = 0, isWarmUp = false): Promise<AccessToken> {
    const now = this.#time.now();
    const known = this.#owners.use(accessKey);
    if (known?.held && dropEnded(known, now)) this.#owners.store(known);
    // After the last point at which a logger may have called the registry: storing can evict an owner.
    const flight = this.#owners.flightOf(accessKey);
    const conditions = this.#requests.conditions(flight, now, minValidityMs);
    const slot = known ?? new Slot(accessKey, this.#settings.fingerprints);
    if (signal) checkSignal(signal);
    if (this.#closing.signal.aborted) throw closedError(slot.owner, now);
    const isDemanding = minValidityMs > 0 && isTooShort(slot, minValidityMs, now, this.#requests);
    const caller = { signal, isDemanding, isWarmUp };
    const decision = decide(slot, now, conditions);
    try {
      switch (decision) {
        case 'serve-and-refresh':
        case 'serve':
          if (decision === 'serve-and-refresh') this.#requests.refresh(slot, now);
          this.#counts.hits++;
          return Promise.resolve(slot.held as AccessToken);
        case 'wait':
          this.#counts.joined++;
          return this.#requests.join(flight as Flight, caller, now);
        case 'refuse':
          return this.#requests.refuse(slot, now, conditions.circuit);
        case 'request':
      }
      return this.#requests.request(slot, caller, now);
    } finally {
      // Reported last: a subscriber that calls the registry must find the decision carried out.
      if (lookups.hasSubscribers) this.#diagnostics.lookup(slot, decision);
    }
  }

  /** A token with this much life left. If another replica shared one long after its request, requests once more. */
  async #lastingToken(accessKey: string, given: unknown, signal?: AbortSignal): Promise<AccessToken> {
    const minValidityMs = minValidityMsOf(given);
    for (let attempt = 1; ; attempt++) {
      const token = await this.#answer(accessKey, signal, minValidityMs);
      if (lasts(this.#slotOf(accessKey), token, minValidityMs, this.#time.now(), this.#requests, attempt)) return token;
    }
  }

  async #close(timeoutMs: number): Promise<void> {
    this.#closing.abort(closedError(undefined, this.#time.now()));
    this.#owners.clear();
    const abandoned = await this.#requests.close(timeoutMs);
    this.#diagnostics.emit('registry.closed', () => ({ abandoned }));
  }
}
