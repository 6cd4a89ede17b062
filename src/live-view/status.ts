/**
 * Who is served, who is not, and why: what a walk over the owners of a registry and its statistics say together. Pure.
 *
 * An owner **cannot be served** if a call would get no token now: it has none that has not ended, and either an open circuit
 * stops its requests, or its last request, or its last call in the queue, failed. Also one whose token the API rejected and
 * whose access key was refused since. One that nobody has called for two hours has lapsed, and counts as neither failing nor
 * without service: see `stats().withoutService`.
 */

import type { FailureScope, OwnerTokenErrorCode } from '../errors/owner-token-error.ts';
import type { OwnerReport } from '../registry/reports.ts';
import type { PauseStat, RegistryStats } from '../registry/stats.ts';
import { adviceFor } from './advice.ts';

/**
 * Why owners fail: all failures with the same code and HTTP status.
 *
 * @example
 * ```ts
 * await registry.getToken('a wrong key').catch(() => {});
 * const [status] = await liveView(registry).status();
 * const [cause]: Cause[] = [...(status?.causes ?? [])];
 * console.log(cause?.id, cause?.unserved); // → owner_refused-400 1
 * ```
 */
export interface Cause {
  /** Names the cause in links. */
  readonly id: string;
  /** Code of the failures. */
  readonly code: OwnerTokenErrorCode;
  /** Their HTTP status. */
  readonly status?: number;
  /** What it stops: single owners, or all requests of the client or to the endpoint; `queue`: calls that wait for their turn. */
  readonly scope: FailureScope | 'queue';
  /** What failed, in words: of one of the failures. */
  readonly message: string;
  /** Epoch ms: since when the first of them fails. */
  readonly sinceMs: number;
  /** How many owners fail for this cause. */
  readonly owners: number;
  /** How many of these cannot be served. */
  readonly unserved: number;
  /** Epoch ms: when the next attempt may be made. */
  readonly retryAtMs: number;
  /** Whether an attempt is in flight. */
  readonly probing: boolean;
  /** Who can end it. */
  readonly fault: string;
  /** What to do. */
  readonly todo: string;
  /** The runbook, if the option `runbooksUrl` is set. */
  readonly runbook?: string;
}

/**
 * When owners that are served from cached tokens lose service, if nothing changes.
 *
 * @example
 * ```ts
 * const inHalfAnHour: Runway = { owners: 200, firstAtMs: Date.now() + 1_800_000 };
 * ```
 */
export interface Runway {
  /** How many owners have a token that cannot be renewed now. */
  readonly owners: number;
  /** Epoch ms: when the first of these tokens ends. */
  readonly firstAtMs: number;
  /** Epoch ms: when half of all owners are without service; absent if that many are not concerned, or are without it now. */
  readonly halfAtMs?: number;
}

/**
 * Who is served by a registry, who is not, and why.
 *
 * @example
 * ```ts
 * await registry.getToken(accessKey);
 * const [status]: RegistryStatus[] = await liveView(registry).status();
 * console.log(status?.sentence); // → The only owner is served.
 * ```
 */
export interface RegistryStatus {
  /** Name of the registry. */
  readonly registry: string;
  /** Epoch ms, by the registry's clock: when the owners were counted. */
  readonly atMs: number;
  /** Epoch ms: when this process started. What fails since then may have failed before. */
  readonly startedAtMs: number;
  /** The most important in a sentence or a few, for a log or a message. */
  readonly sentence: string;
  /**
   * `fails`: a circuit is open. `partly`: it is closed, but requests of some owners fail for a reason that is not theirs. `slow`:
   * tokens come, and take far longer than usual.
   */
  readonly service: 'works' | 'slow' | 'partly' | 'fails';
  /** How slow, and since when; absent while it is not. */
  readonly slowService?: NonNullable<RegistryStats['slowService']>;
  /** Owners that the registry knows. */
  readonly known: number;
  /** Owners that cannot be served now. */
  readonly unserved: number;
  /** Owners whose calls wait for a request now. */
  readonly waiting: number;
  /** Why owners fail, those without service first. */
  readonly causes: readonly Cause[];
  /** When the others lose service; absent if all tokens can be renewed. */
  readonly runway?: Runway;
  /** The rate limit on token requests; absent while there is none. */
  readonly pace?: NonNullable<RegistryStats['pace']>;
  /** How long a call is queued at most, in milliseconds. */
  readonly longestQueuedMs: number;
  /** The name of this replica, if it shares tokens. */
  readonly replica?: string;
  /** How many replicas share tokens, this one included. */
  readonly replicas?: number;
  /** Whether they can: false while Redis is unavailable. */
  readonly sharing?: boolean;
}

/** What is said of an owner. */
export type OwnerFacts = Pick<OwnerReport, 'phase' | 'expiresAtMs' | 'failure' | 'withoutService'>;

/** What the status of a fleet takes from its `SharedTokens`. The name of the replica is optional. */
export interface SharingFacts {
  readonly sharing: boolean;
  readonly replicas: number;
  readonly replica?: string | undefined;
}

type Pauses = RegistryStats['pauses'];
type Circuit = PauseStat & { readonly scope: FailureScope };

function circuitOf({ client, endpoint }: Pauses): Circuit | undefined {
  if (client) return { scope: 'client', ...client };
  return endpoint && { scope: 'endpoint', ...endpoint };
}

const idOf = ({ code, status }: Pick<Cause, 'code' | 'status'>): string => [code, status].filter(Boolean).join('-');

/** Whether it has a token that serves. */
const hasToken = ({ expiresAtMs, withoutService }: OwnerFacts): boolean =>
  expiresAtMs !== undefined && withoutService === undefined;

/** The id of the cause for which an owner fails; undefined if it does not. */
export function causeIdOf(owner: OwnerFacts, pauses: Pauses): string | undefined {
  if (owner.withoutService?.hasLapsed) return undefined;
  const { failure } = owner;
  const circuit = circuitOf(pauses);
  if (failure && failure.code !== 'token_rejected') return idOf(failure);
  if (circuit && !hasToken(owner)) return idOf(circuit);
  return failure && idOf(failure);
}

type Counted = { -readonly [K in keyof Cause]: Cause[K] };

/** Counts owners. Takes in one after the other, so that a walk may be made in slices. */
export class Survey {
  readonly #pauses: Pauses;
  readonly #circuit: Circuit | undefined;
  readonly #isPaced: boolean;
  readonly #causes = new Map<string, Counted>();
  /** How many tokens that cannot be renewed end in each second. */
  readonly #ends = new Map<number, number>();
  #known = 0;
  #unserved = 0;
  #waiting = 0;

  constructor({ pauses, pace }: RegistryStats) {
    this.#pauses = pauses;
    this.#isPaced = pace?.reason === 'overload';
    this.#circuit = circuitOf(pauses);
    if (this.#circuit) this.#count({ ...this.#circuit, message: 'the token service fails for all owners' });
  }

  add(owner: OwnerFacts): void {
    this.#known++;
    const id = causeIdOf(owner, this.#pauses);
    const isServed = hasToken(owner);
    if (id === undefined) {
      if (!isServed && owner.phase === 'requesting') this.#waiting++;
      if (!isServed || !this.#circuit) return;
    }
    if (isServed && (this.#circuit || owner.failure?.code !== 'token_rejected'))
      this.#endsAt(owner.expiresAtMs as number);
    if (id === undefined) return;
    const { failure } = owner;
    const cause = (failure && idOf(failure) === id ? this.#count(failure) : this.#causes.get(id)) as Counted;
    cause.owners++;
    if (owner.phase === 'requesting' && !this.#circuit) cause.probing = true;
    if (isServed) return;
    cause.unserved++;
    this.#unserved++;
  }

  #endsAt(atMs: number): void {
    if (!Number.isFinite(atMs)) return;
    const second = Math.ceil(atMs / 1000);
    this.#ends.set(second, (this.#ends.get(second) ?? 0) + 1);
  }

  /** The cause of a failure. An open circuit and failures of single owners with its code and status are one. */
  #count(
    failure: Pick<Cause, 'code' | 'status' | 'message' | 'sinceMs' | 'retryAtMs'> &
      Partial<Pick<Cause, 'scope' | 'probing'>>,
  ): Counted {
    const { code, status, message, sinceMs, retryAtMs, probing = false } = failure;
    const known = this.#causes.get(idOf(failure));
    if (known && isWide(known)) known.message = message;
    else if (known) {
      known.sinceMs = Math.min(known.sinceMs, sinceMs);
      known.retryAtMs = Math.min(known.retryAtMs, retryAtMs);
    }
    if (known) return known;
    const { scope = code.startsWith('queue_') ? 'queue' : 'owner' } = failure;
    const { fault, todo } = adviceFor(code, this.#isPaced);
    const cause: Counted = {
      id: idOf(failure),
      code,
      ...(status !== undefined && { status }),
      scope,
      message,
      sinceMs,
      owners: 0,
      unserved: 0,
      retryAtMs,
      probing,
      fault,
      todo,
    };
    this.#causes.set(cause.id, cause);
    return cause;
  }

  /** What was counted, without its sentence. @param runbooksUrl the page whose headings are the alerts. */
  result(registry: string, stats: RegistryStats, atMs: number, runbooksUrl?: string, fleet?: SharingFacts): Facts {
    const causes = [...this.#causes.values()].map((cause) => ({
      ...cause,
      ...(cause.owners > 1 && { todo: cause.todo.replace('for this owner', 'for each of these owners') }),
      ...linkOf(cause, runbooksUrl),
    }));
    causes.sort(
      (a, b) =>
        Number(isWide(b)) - Number(isWide(a)) ||
        b.unserved - a.unserved ||
        b.owners - a.owners ||
        a.id.localeCompare(b.id),
    );
    const runway = this.#runway();
    return {
      registry,
      atMs,
      startedAtMs: Math.round(performance.timeOrigin),
      service: this.#circuit ? 'fails' : causes.some(isPartial) ? 'partly' : stats.slowService ? 'slow' : 'works',
      ...(stats.slowService && { slowService: stats.slowService }),
      known: this.#known,
      unserved: this.#unserved,
      waiting: this.#waiting,
      causes,
      ...(runway && { runway }),
      ...(stats.pace && { pace: stats.pace }),
      longestQueuedMs: stats.longestQueuedMs,
      ...(fleet?.replica !== undefined && { replica: fleet.replica }),
      ...(fleet && { replicas: fleet.replicas, sharing: fleet.sharing }),
    };
  }

  #runway(): Runway | undefined {
    const ends = [...this.#ends].sort(([a], [b]) => a - b);
    const [first] = ends;
    if (!first) return undefined;
    let without = this.#unserved;
    let half: number | undefined;
    for (const [second, count] of without * 2 < this.#known ? ends : []) {
      without += count;
      if (without * 2 < this.#known) continue;
      half = second * 1000;
      break;
    }
    const owners = ends.reduce((sum, [, count]) => sum + count, 0);
    return { owners, firstAtMs: first[0] * 1000, ...(half !== undefined && { halfAtMs: half }) };
  }
}

/** A status without its sentence. */
export type Facts = Omit<RegistryStatus, 'sentence'>;

const linkOf = ({ code }: Cause, runbooksUrl: string | undefined): { runbook?: string } => {
  const { runbook } = adviceFor(code);
  return runbooksUrl === undefined || runbook === '' ? {} : { runbook: `${runbooksUrl}#${runbook}` };
};

export const isWide = ({ scope }: Cause): boolean => scope === 'client' || scope === 'endpoint';

/** Whether single owners fail for a reason that is not theirs. */
const isPartial = ({ code }: Cause): boolean =>
  code !== 'owner_refused' && code !== 'token_rejected' && !code.startsWith('queue_');
