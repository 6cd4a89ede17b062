/**
 * The registry maps owners to tokens and answers calls. `slot.ts` decides what a call gets, and `requests.ts` makes the
 * requests. Only these requests and the registry change a slot.
 */

import { callRules, type OwnerFetch, type OwnerFetchOptions, ownerFetchFor } from '../calling/owner-fetch.ts';
import { type Instant, onWallClock, settledWithin, type Time } from '../clock.ts';
import { Diagnostics } from '../diagnostics.ts';
import { OwnerTokenError } from '../errors.ts';
import { refusingCircuit } from '../failures/blame.ts';
import { pauseAfterRejections } from '../failures/refusals.ts';
import { AccessToken } from '../token.ts';
import type { Flight } from './flight.ts';
import {
  checkSignal,
  closeTimeoutMs,
  invalidSignal,
  type OwnerTokenRegistryOptions,
  type RegistrySettings,
  registrySettings,
} from './options.ts';
import { OwnerTable } from './owner-table.ts';
import type { OwnerReport, OwnerState, OwnersOptions, RegistryStats } from './reports.ts';
import { ownerReports, ownerState, registryStats } from './reports.ts';
import { Requests } from './requests.ts';
import {
  accessKeyOf,
  addToDenylist,
  ageMsOf,
  type Conditions,
  clearSlot,
  decide,
  dropEnded,
  dropRejected,
  isUsable,
  recordAccepted,
  recordFailure,
  Slot,
} from './slot.ts';
import { closedError } from './source-call.ts';
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
  readonly #closing = new AbortController();
  readonly #counts = { hits: 0, joined: 0, rejections: 0 };
  #closed: Promise<void> | undefined;

  /** @throws OwnerTokenError `invalid_options`, listing every problem. */
  constructor(options: OwnerTokenRegistryOptions) {
    const settings = registrySettings(options);
    this.#settings = settings;
    this.#time = settings.time;
    this.#diagnostics = new Diagnostics(settings);
    this.#owners = new OwnerTable(settings.maxOwners, this.#diagnostics);
    this.#requests = new Requests(settings, this.#owners, this.#diagnostics);
    settings.source.listen?.({
      rejected: (accessKey, isToken) => {
        const held = this.peek(accessKey);
        if (held && isToken(held.value)) this.reject(accessKey, held);
      },
      recovered: (accessKey) => {
        this.resume(accessKey);
        this.#requests.scheduler.liftCircuit();
      },
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
   * 4. With no usable token and a pause in force, it rejects at once with the cached error and its `retryAtMs`.
   * 5. Otherwise it queues and makes one request.
   *
   * @param options `signal` rejects this call at once, with `signal.reason`; other callers are not affected. A
   * request settles all its callers with a signal in one turn of the event loop.
   * @throws OwnerTokenError as a rejection; nothing is thrown synchronously.
   */
  getToken(accessKey: string, options?: { signal?: AbortSignal | null | undefined }): Promise<AccessToken> {
    if (options instanceof AbortSignal) return Promise.reject(invalidSignal());
    const signal = options?.signal ?? undefined;
    if (signal?.aborted) return Promise.reject(signal.reason);
    try {
      // Before the lookup: the CPU completes all earlier loads before it reads the clock, so the other order would wait for
      // the cache misses of the lookup.
      const second = this.#time.seconds();
      const index = this.#owners.indexOfFresh(accessKey, second);
      if (index === undefined) return this.#answer(accessKey, signal);
      // Before the report, whose subscriber may drop the token.
      const token = this.#owners.tokenAt(index);
      this.#counts.hits++;
      if (this.#diagnostics.hasLookupSubscribers) this.#diagnostics.lookup(this.#owners.slotAt(index), 'serve');
      return token;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** The owner's cached token, if it is usable now; never requests one. */
  peek(accessKey: string): AccessToken | undefined {
    const slot = this.#owners.peek(accessKeyOf(accessKey));
    return slot && isUsable(slot, this.#time.now()) ? slot.held : undefined;
  }

  /**
   * Reports that the service rejected this token. The registry does not serve it again while it is among the owner's
   * last four rejected tokens. A late report of an older token does not affect the current one.
   *
   * @returns whether it was the cached token, which is then dropped.
   */
  reject(accessKey: string, token: AccessToken | string): boolean {
    const slot = this.#owners.peek(accessKeyOf(accessKey));
    const value = token instanceof AccessToken ? token.value : token;
    if (!slot || typeof value !== 'string') return false;
    const now = this.#time.now();
    const { held } = slot;
    const wasHeld = held?.value === value;
    // Any other `AccessToken` may come from a registry with another `fingerprintKey`.
    const fingerprint = wasHeld ? held.fingerprint : this.#settings.fingerprints.ofToken(value);
    const known = wasHeld ? held : token instanceof AccessToken ? token : undefined;
    const isFirstReport = addToDenylist(slot, fingerprint, known);
    const ageMs = known ? ageMsOf(slot, known, now) : 0;
    if (wasHeld) this.#dropRejected(slot, held, now);
    if (isFirstReport && known) this.#tellPolicy('rejected', slot, known, ageMs);
    this.#diagnostics.rejected(slot, fingerprint, wasHeld);
    return wasHeld;
  }

  /**
   * Reports that a call with this token succeeded. Policies that learn use this as evidence. It also shows that a
   * rejection of the same token elsewhere is not the owner's fault.
   */
  accept(accessKey: string, token: AccessToken): void {
    const slot = this.#owners.peek(accessKeyOf(accessKey));
    if (!slot || !(token instanceof AccessToken)) return;
    if (recordAccepted(slot, token)) this.#owners.reportRecovery(slot);
    if (this.#settings.expiry.accepted)
      this.#tellPolicy('accepted', slot, token, ageMsOf(slot, token, this.#time.now()));
  }

  /**
   * Drops everything that is cached for a removed owner, including its pause. An in-flight request still settles its
   * callers, but its token is not stored.
   *
   * @returns whether there was a token, a failure or a request.
   */
  forget(accessKey: string): boolean {
    const slot = this.#owners.peek(accessKeyOf(accessKey));
    const flight = this.#owners.flightOf(accessKey);
    if (flight) this.#requests.detach(flight);
    if (slot) this.#requests.forget(slot);
    this.#owners.forget(accessKey);
    return (slot !== undefined && clearSlot(slot)) || flight !== undefined;
  }

  /**
   * {@link forget} for every owner, for example after a secret has leaked. Drops or detaches the requests over several
   * turns of the event loop; none starts meanwhile. The next token allocates the cache again; see `maxOwners`.
   */
  forgetAll(): void {
    this.#requests.forgetAll(this.#owners.clear());
  }

  /** What is known about this owner: "which customer is this, and why does it not work?" */
  describe(accessKey: string): OwnerState {
    const slot = this.#owners.peek(accessKey) ?? new Slot(accessKey, this.#settings.fingerprints);
    const now = this.#time.now();
    return ownerState(slot, now, this.#conditions(this.#owners.flightOf(accessKey), now));
  }

  /** Owners that fail, the worst first, then those in use. Takes time by what it returns, not by `maxOwners`. */
  owners(options: OwnersOptions = {}): OwnerReport[] {
    const now = this.#time.now();
    const conditions = ({ accessKey }: Slot) => this.#conditions(this.#owners.flightOf(accessKey), now);
    return ownerReports(this.#owners, options, now, conditions, this.#diagnostics.failingSinceMs);
  }

  /** The owner's name in logs, errors and reports: its label if `ownerLabel` returns one, or else a keyed digest. */
  fingerprint(accessKey: string): string {
    return (this.#owners.peek(accessKey) ?? new Slot(accessKey, this.#settings.fingerprints)).owner;
  }

  /**
   * A `fetch` that calls on this owner's behalf; see `docs/calling.md`.
   *
   * @throws OwnerTokenError `invalid_options`
   */
  ownerFetch(accessKey: string, options?: OwnerFetchOptions): OwnerFetch {
    return ownerFetchFor(this, accessKeyOf(accessKey), callRules(options, this.#settings.calls));
  }

  /** Obtains tokens for many owners before they are needed, at most `concurrency` at once. */
  warmUp(accessKeys: Iterable<string> | AsyncIterable<string>, options?: WarmUpOptions): Promise<WarmUpReport> {
    const parts = { ...this.#settings, tokens: this, diagnostics: this.#diagnostics, closing: this.#closing.signal };
    return warmUp(parts, accessKeys, options);
  }

  /**
   * Ends the owner's pause, or all pauses, at once. Call it when the cause is fixed. The recovery of many owners is
   * reported over several turns of the event loop, in time proportional to their number.
   */
  resume(accessKey?: string): void {
    const slot = accessKey === undefined ? undefined : this.#owners.peek(accessKeyOf(accessKey));
    if (slot) this.#owners.resume(slot);
    if (accessKey !== undefined) return;
    this.#owners.resumeAll();
    this.#requests.scheduler.liftCircuit();
  }

  /** Plain numbers, no secrets. Takes the same time however many owners there are. */
  stats(): RegistryStats {
    const { concurrency } = this.#settings;
    const counts = { concurrency, ...this.#counts, refused: { ...this.#diagnostics.refusedCalls } };
    return registryStats(counts, this.#owners, this.#requests, this.#time.now());
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
  #answer(accessKey: string, signal?: AbortSignal): Promise<AccessToken> {
    const now = this.#time.now();
    const known = this.#owners.use(accessKey);
    if (known?.held && dropEnded(known, now)) this.#owners.store(known);
    // After the last point at which a logger may have called the registry: storing can evict an owner.
    const flight = this.#owners.flightOf(accessKey);
    const conditions = this.#conditions(flight, now);
    const slot = known ?? new Slot(accessKey, this.#settings.fingerprints);
    if (signal) checkSignal(signal);
    if (this.#closing.signal.aborted) throw closedError(slot.owner, now);
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
          return this.#requests.join(flight as Flight, signal, now);
        case 'refuse':
          return this.#requests.refuse(slot, signal, now, conditions.circuit);
        case 'request':
          return this.#requests.begin(slot, signal, now);
      }
    } finally {
      // Reported last: a subscriber that calls the registry must find the decision carried out.
      this.#diagnostics.lookup(slot, decision);
    }
  }

  #conditions(flight: Flight | undefined, now: Instant): Conditions {
    const { blame } = this.#requests.scheduler.health;
    return { requesting: flight !== undefined, circuit: blame.circuit && refusingCircuit(blame, now.monotonicMs) };
  }

  /** Drops the held token. Pauses the owner if three fresh tokens in a row were rejected. */
  #dropRejected(slot: Slot, held: AccessToken, now: Instant): void {
    this.#counts.rejections++;
    const { pauses, random } = this.#settings;
    const pause = pauseAfterRejections(slot, dropRejected(slot, held, now), pauses.owner, now, random);
    if (pause) recordFailure(slot, pause);
    this.#owners.store(slot);
    this.#requests.detachSent(slot.accessKey);
    if (!pause) return;
    const retryAtMs = onWallClock(pause.retryAtMonotonicMs, now);
    this.#diagnostics.paused(slot, pause, OwnerTokenError.restated(pause.error, { retryAtMs }));
  }

  #tellPolicy(what: 'accepted' | 'rejected', slot: Slot, token: AccessToken, ageMs: number): void {
    const { expiry, fingerprints } = this.#settings;
    try {
      // The fingerprint, not the name: several owners may share a label.
      expiry[what]?.({ owner: fingerprints.ofOwner(slot.accessKey), token: token.fingerprint, ageMs });
    } catch (thrown) {
      this.#diagnostics.hookFailed(`expiry.${what}`, thrown);
    }
  }

  async #close(timeoutMs: number): Promise<void> {
    this.#closing.abort(closedError(undefined, this.#time.now()));
    this.#owners.clear();
    const endsAtMs = this.#time.now().monotonicMs + timeoutMs;
    const abandoned = await this.#requests.close(timeoutMs);
    const sourceClosed = (async () => void (await this.#settings.source.close?.()))();
    await settledWithin(this.#time, endsAtMs - this.#time.now().monotonicMs, sourceClosed).catch((thrown) =>
      this.#diagnostics.hookFailed('source.close', thrown),
    );
    this.#diagnostics.emit('registry.closed', () => ({ abandoned }));
  }
}
