/**
 * A model of the token service and of the endpoint caller before it, as a registry sees them: a source that answers
 * late, wrongly or not at all. What a fault comes to is what the endpoint caller makes of it; its own tests show that.
 */

import type { FailureScope, IssuedToken, TokenRequest, TokenSource } from '../../src/index.ts';
import type { ManualClock } from '../helpers/manual-clock.ts';
import type { Random } from '../helpers/random.ts';
import { type Issuing, isAlive, jwtOf, type Token, Tokens } from '../world/tokens.ts';
import { MARK } from './emissions.ts';
import { type Fault, failureFor, givenScopeOf, STRANGE_ERRORS, timedOut } from './faults.ts';
import type { Mark } from './observed.ts';
import type { Oracle } from './oracle.ts';

/** A request on its way. */
export interface Asked {
  readonly oracle: Oracle;
  readonly owner: number;
  readonly fault: Fault;
  readonly request: TokenRequest;
  readonly sentWallMs: number;
  readonly sentMs: number;
  /** When the service answers, and when the caller gives up; monotonic. */
  dueMs: number;
  readonly deadlineMs: number;
  readonly generation: number;
  readonly mark: Mark;
  readonly resolve: (issued: IssuedToken) => void;
  readonly reject: (error: unknown) => void;
}

/** What is not documented of the service, and so may be any way. */
export interface Profile extends Issuing {
  readonly datesGrants: boolean;
  readonly jwt: boolean;
  /** How far the service's clock is ahead of ours; undefined if its answers do not say. */
  readonly clockAheadMs: number | undefined;
  /** `left`: the whole seconds that are left of it, 0 in the last one. */
  readonly stated: 'seconds' | 'text' | 'left' | 'absent' | 'odd';
  readonly timeoutMs: number;
  readonly latencyMs: number;
}

const ODD_LIFETIMES: readonly unknown[] = ['abc', '', null, true, {}, 0, -5, 1e12, 1e20, Number.NaN, 0.001, 3600.5, 1];

export class ServiceModel {
  readonly asked: Asked[] = [];
  /** Faults of all requests, of which a share fails, and of single owners. */
  general: { fault: Fault; share: number } = { fault: undefined, share: 0 };
  readonly ofOwner = new Map<number, Fault>();
  readonly revokedKeys = new Set<number>();
  secretMatches = true;
  /** What happens to requests over the present connections, which lead to a host that is gone. Only a new one ends that. */
  sinceMove: Fault;
  /** The share of calls that the API refuses whatever the token. */
  refusedShare = 0;
  profile: Profile;
  readonly #random: Random;
  readonly #clock: ManualClock;
  readonly #realMs: () => number;
  /** Those of each owner and registry, by the world's own time, that no clock of the client's shows. */
  readonly #tokens = new Tokens();

  constructor(profile: Profile, random: Random, clock: ManualClock, realMs: () => number) {
    this.profile = profile;
    this.#random = random;
    this.#clock = clock;
    this.#realMs = realMs;
  }

  /** The source that a registry is given. */
  sourceFor(oracle: () => Oracle): TokenSource {
    return {
      requestToken: (accessKey, request) => this.#receive(oracle(), accessKey, request),
      close: () => {
        if (this.#random.chance(0.1)) throw new Error(`close of ${MARK} failed`);
        return this.#random.chance(0.1) ? Promise.reject(new Error(MARK)) : Promise.resolve();
      },
    };
  }

  /** The next moment at which a request is answered or given up. */
  get nextDueMs(): number {
    let first = Number.POSITIVE_INFINITY;
    for (const { dueMs, deadlineMs } of this.asked) first = Math.min(first, dueMs, deadlineMs);
    return first;
  }

  /** Every fault ends. */
  cure(): void {
    this.general = { fault: undefined, share: 0 };
    this.ofOwner.clear();
    this.revokedKeys.clear();
    this.secretMatches = true;
    this.refusedShare = 0;
    this.profile = {
      ...this.profile,
      validAfterMs: 0,
      latencyMs: 20,
      stated: 'seconds',
      repeats: false,
      lifeMs: Math.max(this.profile.lifeMs, 60_000),
    };
  }

  /** A call to the API with a token that this registry's caller has. Returns whether it is accepted. */
  call(value: string, oracle: Oracle, owner: number): boolean {
    const isRefused = this.#random.chance(this.refusedShare);
    return !isRefused && isAlive(this.#tokens.find(value), nameOf(oracle, owner), this.#realMs());
  }

  /** The token is revoked, at the service's portal say. */
  revoke(value: string): void {
    const token = this.#tokens.find(value);
    if (token) token.revoked = true;
  }

  /** Answers this request now; one that hangs only if its time is up. */
  settle(index: number): boolean {
    const asked = this.asked[index] as Asked;
    const timeIsUp = this.#clock.monotonicMs >= asked.deadlineMs;
    if (asked.dueMs === Number.POSITIVE_INFINITY && !timeIsUp) return false;
    const last = this.asked.pop() as Asked;
    if (last !== asked) this.asked[index] = last;
    if (timeIsUp && asked.dueMs > asked.deadlineMs) this.#fail(asked, timedOut());
    else this.#answer(asked);
    return true;
  }

  /** The registry that asked has closed: its requests break off, soon or, deaf ones, at their deadline. */
  breakOff(oracle: Oracle): void {
    for (const asked of this.asked) {
      if (asked.oracle === oracle && this.#random.chance(0.7)) asked.dueMs = this.#clock.monotonicMs;
    }
  }

  #receive(oracle: Oracle, accessKey: string, request: TokenRequest): Promise<IssuedToken> {
    const owner = oracle.ownerOf(accessKey);
    const mark = oracle.asks(owner, request);
    const fault = this.#faultFor(owner, request);
    oracle.world.trace(`${oracle.index} asks for ${owner}: ${request.reason}, ${fault ?? 'no fault'}`);
    if (fault === 'throws') {
      oracle.answered(owner, undefined, mark);
      throw new Error(`it broke at ${accessKey}`);
    }
    return new Promise((resolve, reject) => {
      const sentMs = this.#clock.monotonicMs;
      const latencyMs = fault === 'hang' ? Number.POSITIVE_INFINITY : this.#random.span(1, this.profile.latencyMs);
      this.asked.push({
        oracle,
        owner,
        fault,
        request,
        mark,
        resolve,
        reject,
        sentMs,
        sentWallMs: this.#clock.wallMs,
        dueMs: sentMs + latencyMs,
        deadlineMs: sentMs + this.profile.timeoutMs,
        generation: oracle.generationOf(owner),
      });
    });
  }

  #faultFor(owner: number, { freshConnection }: TokenRequest): Fault {
    if (this.sinceMove && !freshConnection) return this.sinceMove;
    const own = this.ofOwner.get(owner);
    if (own) return own;
    if (!this.secretMatches) return 'invalid-client';
    if (this.general.fault && this.#random.chance(this.general.share)) return this.general.fault;
    return undefined;
  }

  #answer(asked: Asked): void {
    const { fault, oracle, owner } = asked;
    const revoked = this.revokedKeys.has(owner);
    const failure = failureFor(fault ?? (revoked ? 'refused' : undefined), oracle.keys[owner] as string, this.#random);
    if (failure) {
      this.#fail(asked, failure.error, givenScopeOf(fault));
      return;
    }
    if (fault === 'strange-error') {
      oracle.answered(owner, undefined, asked.mark);
      asked.reject(this.#random.pick(STRANGE_ERRORS)());
      return;
    }
    if (fault === 'no-grant') {
      oracle.answered(owner, undefined, asked.mark);
      asked.resolve(this.#random.pick(UNUSABLE_GRANTS) as IssuedToken);
      return;
    }
    // The idle connections are closed.
    if (asked.request.freshConnection) this.sinceMove = undefined;
    const token = this.#tokenFor(asked);
    const response = { access_token: token.value, expires_in: this.#statedLifetime(token) };
    oracle.granted(asked, token.value);
    asked.resolve({
      token: token.value,
      ...(this.profile.datesGrants && { requestedAtMs: asked.sentWallMs }),
      ...(this.profile.clockAheadMs !== undefined && {
        serviceTimeMs: Math.floor((this.#realMs() + this.profile.clockAheadMs) / 1_000) * 1_000,
      }),
      ...(fault === 'dead-on-arrival' && { requestedAtMs: this.#clock.wallMs - 100 * 365 * 86_400_000 }),
      response,
    });
  }

  #fail(asked: Asked, error: unknown, given?: FailureScope): void {
    asked.oracle.answered(asked.owner, error, asked.mark, given);
    asked.reject(error);
  }

  #tokenFor({ oracle, owner: asking, fault }: Asked): Token {
    const owner = fault === 'wrong-owner' ? (asking + 1) % oracle.keys.length : asking;
    const name = nameOf(oracle, owner);
    const { jwt, clockAheadMs, lifeMs } = this.profile;
    const newest = fault === 'same-again' ? this.#tokens.newest.get(name) : undefined;
    return (
      newest ??
      this.#tokens.issue(name, this.#realMs(), this.profile, (number) => {
        const value = `${MARK}-${number}-${oracle.index}-${owner}`;
        const nowMs = clockAheadMs === undefined ? this.#clock.wallMs : this.#realMs() + clockAheadMs;
        return jwt ? jwtOf(nowMs / 1000, lifeMs / 1000, value) : value;
      })
    );
  }

  #statedLifetime({ endsMs }: Token): unknown {
    const seconds = this.profile.lifeMs / 1000;
    switch (this.profile.stated) {
      case 'seconds':
        return seconds;
      case 'text':
        return String(seconds);
      case 'left':
        return Math.floor((endsMs - this.#realMs()) / 1000);
      case 'absent':
        return undefined;
      case 'odd':
        return this.#random.pick(ODD_LIFETIMES);
    }
  }
}

/** A service issues tokens to an owner of one registry. */
const nameOf = (oracle: Oracle, owner: number) => `${owner} of ${oracle.index}`;

const UNUSABLE_GRANTS: readonly unknown[] = [
  undefined,
  null,
  {},
  { token: '' },
  { token: 7 },
  { token: `${MARK}\r\nX: 1` },
  { token: MARK.repeat(20_000) },
  { token: `${MARK}-of-nobody`, tokenType: 7 },
  { token: `${MARK}-of-nobody`, requestedAtMs: Number.NaN },
];
