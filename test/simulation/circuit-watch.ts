/**
 * Holds the pauses of the client and the endpoint against the contract: that they begin where they must and nowhere
 * else, that they hold every request back but one probe, and that concurrency starts at one after it.
 */

import { OwnerTokenError, type OwnerTokenRegistry, type RegistryStats } from '../../src/index.ts';
import type { Mark, WatchedOptions, WorldView } from './observed.ts';
import { SLOW_MS } from './request-account.ts';

type Scope = 'client' | 'endpoint';
const SCOPES: readonly Scope[] = ['client', 'endpoint'];

/** A pause as it was seen when the world was last quiet. */
interface Seen {
  readonly retryAtMs: number;
  readonly failures: number;
  readonly sinceStep: number;
}

const OPEN_ENDED = new Set(['endpoint_unavailable', 'invalid_response', 'owner_refused']);
const DISTINCT_OWNERS = 3;
const HOUR_MS = 3_600_000;

export class CircuitWatch {
  readonly #world: WorldView;
  readonly #options: WatchedOptions;
  readonly #seen: { client: Seen | undefined; endpoint: Seen | undefined } = { client: undefined, endpoint: undefined };
  /** In-flight requests of owners that are not failing. */
  readonly #underWay = new Set<Mark>();
  /** Those of owners that never succeeded: as a trial they may be replaced. */
  readonly #ofNewcomers = new Set<Mark>();
  /** How many requests may be in flight after a pause: one, twice as many after each success, one more by a refusal. */
  #limitAfterPause = Number.POSITIVE_INFINITY;
  /** Owners whose failure may be anybody's, since the pause of either scope was lifted. */
  readonly #suspects = { client: new Set<number>(), endpoint: new Set<number>() };
  /** Those of them since the last quiet step: the registry may come to know of them only after a pause was lifted. */
  #newSuspects: number[] = [];
  /** Since the last quiet step: each raises the limit if another answer of that step lifted the pause before it. */
  #refusals = 0;
  /** The scopes that failures since the last quiet step stopped, with the least that the pause must last. */
  readonly #failedScopes = new Map<Scope, number>();
  /** The scopes that failures since the last quiet step may have stopped. */
  readonly #mayPause = new Set<Scope>();
  /** Owners that were granted something since the last quiet step, and how many failures there were. */
  #grantedTo: number[] = [];
  #failures = 0;
  #failuresTold = 0;
  #answers = 0;
  #hasWorked = false;
  /** Owners that were issued a token, which the registry may have refused for reasons of its own. */
  readonly #mayHaveSucceeded = new Set<number>();
  readonly #mayBeForgotten = new Set<number>();
  #resumed = false;
  #quietStep = 0;

  constructor(world: WorldView, options: WatchedOptions) {
    this.#world = world;
    this.#options = options;
  }

  /** A request begins. */
  asks(registry: OwnerTokenRegistry, owner: number, mark: Mark): void {
    if (mark.isSecond) return;
    if (this.isSeen) {
      const { pauses } = registry.stats();
      for (const scope of SCOPES) if (this.#seen[scope] && pauses[scope]) this.#checkProbe(scope);
    }
    if (mark.mayFail) return;
    this.#underWay.add(mark);
    if (!this.#mayHaveSucceeded.has(owner) || this.#mayBeForgotten.has(owner)) this.#ofNewcomers.add(mark);
    // Older ones may be slow, and have given their permits back.
    const size = [...this.#underWay].filter(({ sentMs }) => mark.sentMs - sentMs < SLOW_MS).length;
    if (size > this.#limitAfterPause)
      this.#world.broken(`${size} in flight where a pause has left ${this.#limitAfterPause}`);
  }

  /** Whether a pause was seen when the world was last quiet. */
  get isSeen(): boolean {
    return this.#seen.client !== undefined || this.#seen.endpoint !== undefined;
  }

  failed(owner: number, error: unknown, mark: Mark): void {
    this.#answers++;
    this.#failures++;
    this.#over(mark);
    if (error === undefined) {
      this.#suspect(owner);
      return;
    }
    if (!(error instanceof OwnerTokenError)) return;
    const { failureScope, code, retryAfterMs } = error;
    if (failureScope === 'client' || failureScope === 'endpoint') {
      const isAsked = retryAfterMs !== undefined && Number.isFinite(retryAfterMs);
      const leastMs = isAsked ? Math.min(Math.max(retryAfterMs, 1_000), HOUR_MS) : 0;
      // A 429 without a hint may only slow requests down.
      if (code === 'rate_limited' && !isAsked) this.#mayPause.add(failureScope);
      else this.#failedScopes.set(failureScope, leastMs);
    } else {
      if (OPEN_ENDED.has(code) && error.oauthError === undefined) this.#suspect(owner);
      if (code !== 'owner_refused') return;
      this.#refusals++;
      this.#limitAfterPause++;
    }
  }

  granted(owner: number, mark: Mark): void {
    this.#answers++;
    this.#over(mark);
    this.#grantedTo.push(owner);
    this.#mayHaveSucceeded.add(owner);
    this.#limitAfterPause *= 2;
  }

  resumed(): void {
    this.#resumed = true;
    this.#limitAfterPause = Number.POSITIVE_INFINITY;
    this.#seen.client = undefined;
    this.#seen.endpoint = undefined;
  }

  checkQuiet(stats: RegistryStats): void {
    const alone = this.#quietStep === this.#world.step - 1 && this.#answers <= 1;
    // The registry may refuse a token itself, for example one that arrived expired.
    if (stats.failures - this.#failuresTold > this.#failures) for (const owner of this.#grantedTo) this.#suspect(owner);
    for (const scope of SCOPES) this.#checkScope(scope, stats, alone);
    this.#failedScopes.clear();
    this.#mayPause.clear();
    this.#grantedTo = [];
    this.#newSuspects = [];
    this.#refusals = 0;
    this.#answers = 0;
    this.#failures = 0;
    this.#failuresTold = stats.failures;
    this.#resumed = false;
    this.#quietStep = this.#world.step;
  }

  #checkScope(scope: Scope, stats: RegistryStats, alone: boolean): void {
    const { wallMs, monotonicMs } = this.#world.clock;
    const before = this.#seen[scope];
    const pause = stats.pauses[scope];
    if (!pause) {
      this.#seen[scope] = undefined;
      if (this.#failedScopes.has(scope) && alone && !this.#resumed)
        this.#world.broken(`a failure of the ${scope} opened no circuit`);
      if (before && !this.#resumed) {
        // In whatever order they came.
        const most = alone ? 1 : (1 + this.#refusals) * 2 ** this.#grantedTo.length;
        this.#limitAfterPause = Math.min(this.#limitAfterPause, most);
      }
      if (before) {
        this.#suspects[scope].clear();
        for (const owner of this.#newSuspects) this.#suspects[scope].add(owner);
      }
      return;
    }
    // While it lasts, one trial may join the requests in flight; concurrency starts again at one after it.
    this.#limitAfterPause = Number.POSITIVE_INFINITY;
    const leftMs = pause.retryAtMs - wallMs;
    const leastMs = alone ? (this.#failedScopes.get(scope) ?? 0) : 0;
    if (leftMs + 1 < leastMs)
      this.#world.broken(`the service asked for ${leastMs} ms, the pause has ${leftMs} ms left`);
    if (leftMs > Math.max(HOUR_MS, this.#options.longestPauseMs) + 1) this.#world.broken(`a pause of ${leftMs} ms`);
    const mayPause = this.#failedScopes.has(scope) || this.#mayPause.has(scope);
    if (!before && !mayPause && this.#suspects[scope].size < DISTINCT_OWNERS) {
      this.#world.broken(`the ${scope} pauses for ${this.#suspects[scope].size} owners`);
    }
    const { failures } = pause;
    const retryAtMs = monotonicMs + leftMs;
    // A pause that was lifted and began again since the last look is a new one.
    const goesOn = before && (failures > before.failures || Math.abs(retryAtMs - before.retryAtMs) < 2);
    this.#seen[scope] = { retryAtMs, failures, sinceStep: goesOn ? before.sinceStep : this.#world.step };
  }

  #checkProbe(scope: Scope): void {
    const { retryAtMs, sinceStep } = this.#seen[scope] as Seen;
    if (this.#world.clock.monotonicMs < retryAtMs - 1.5)
      this.#world.broken(`a request within the pause of the ${scope}`);
    // The trial of an owner that failed or never succeeded may be replaced by another's, but not the other way round.
    for (const mark of this.#underWay) {
      if (mark.step > sinceStep && !this.#ofNewcomers.has(mark)) this.#world.broken(`two probes of the ${scope}`);
    }
  }

  /** A caller was given a token: this owner has succeeded, for certain. */
  delivered(owner: number): void {
    this.#hasWorked = true;
    this.#mayBeForgotten.delete(owner);
  }

  /** The registry may no longer know that this owner once succeeded. */
  forgotten(owner: number): void {
    this.#mayBeForgotten.add(owner);
  }

  /** A newcomer's failure says nothing about others, once somebody has succeeded. */
  #suspect(owner: number): void {
    if (this.#hasWorked && !this.#mayHaveSucceeded.has(owner)) return;
    for (const scope of SCOPES) this.#suspects[scope].add(owner);
    this.#newSuspects.push(owner);
  }

  #over(mark: Mark): void {
    this.#underWay.delete(mark);
    this.#ofNewcomers.delete(mark);
  }
}
