/**
 * The oracle's own account of one registry's tokens: which were issued, rejected or forgotten, and which one the registry
 * must still hold. From it follows whether a caller may be given a token.
 */

import type { AccessToken, TokenRequest } from '../../src/index.ts';
import type { Call, WatchedOptions, WorldView } from './observed.ts';
import type { Asked } from './service.ts';

/** A token that the service issued. */
interface Issued {
  readonly owner: number;
  generation: number;
  fromWallMs: number;
  fromMs: number;
  lifetimeMs: number;
}

/** A token that the registry must hold, at least until this time on the timeline. */
interface Held {
  readonly value: string;
  readonly untilMs: number;
}

const REMEMBERED = 4;
const NONE: readonly string[] = [];
/** Sums of epoch milliseconds and fractions are this inexact. */
const INEXACT_MS = 0.01;

export class TokenAccount {
  /** By owner; raised by each rejection of the held token and by each `forget`. */
  readonly generation: number[];
  readonly #world: WorldView;
  readonly #broken: (what: string) => void;
  /** Nothing is evicted, so what the registry remembers of an owner stays until it is forgotten. */
  readonly #isRoomy: boolean;
  readonly #issued = new Map<string, Issued>();
  readonly #rejected: (readonly string[])[];
  readonly #everRejected = new Set<string>();
  readonly #held: (Held | undefined)[];
  /** The service re-issued a rejected token, so the request may be made a second time. */
  readonly #reissued: boolean[];

  constructor(world: WorldView, owners: number, options: WatchedOptions, broken: (what: string) => void) {
    this.#world = world;
    this.#broken = broken;
    this.#isRoomy = options.maxOwners >= owners;
    this.generation = Array(owners).fill(0);
    this.#rejected = Array(owners).fill(NONE);
    this.#held = Array(owners).fill(undefined);
    this.#reissued = Array(owners).fill(false);
  }

  rejectedOf(owner: number): readonly string[] {
    return this.#rejected[owner] as readonly string[];
  }

  rejected(owner: number, value: string, before: AccessToken | undefined, isClosed: boolean): void {
    if (before?.value === value) this.#held[owner] = undefined;
    this.#everRejected.add(value);
    const known = this.rejectedOf(owner);
    // Without a slot the registry remembers nothing; a nameless entry then keeps this list from being too long.
    const name = before && !isClosed ? value : '';
    if (!known.includes(value)) this.#rejected[owner] = [name, ...known].slice(0, REMEMBERED);
  }

  beginGeneration(owner: number): void {
    this.generation[owner] = (this.generation[owner] as number) + 1;
    this.#held[owner] = undefined;
  }

  forgotten(owner: number): void {
    this.beginGeneration(owner);
    this.#rejected[owner] = NONE;
  }

  /** The registry may have dropped any token. */
  holdsNothing(): void {
    this.#held.fill(undefined);
  }

  /** Takes note of a request, and says whether it is the second one of a call. */
  requested(owner: number, request: TokenRequest): boolean {
    const isSecond = request.reason === 'rejected' && this.#reissued[owner] === true;
    this.#reissued[owner] = false;
    // The next request drops an expired token: it does not come back when the clock is set back.
    if (request.reason !== 'refresh') this.#held[owner] = undefined;
    this.#checkRequest(owner, request, isSecond);
    return isSecond;
  }

  /** Takes note of an issued token. Returns whether it had been rejected. */
  issued({ owner, sentMs, sentWallMs, generation }: Asked, value: string): boolean {
    const { monotonicMs, wallMs } = this.#world.clock;
    const fromWallMs = Math.min(sentWallMs, wallMs - (monotonicMs - sentMs));
    const wasRejected = this.#everRejected.has(value);
    if (wasRejected) this.#reissued[owner] = true;
    this.#held[owner] = undefined;
    const before = this.#issued.get(value);
    if (before) {
      before.generation = Math.max(before.generation, generation);
      before.fromWallMs = Math.max(before.fromWallMs, fromWallMs);
      before.fromMs = Math.max(before.fromMs, sentMs);
    } else {
      const ownerOfToken = Number(value.slice(value.lastIndexOf('-') + 1));
      this.#issued.set(value, { owner: ownerOfToken, generation, fromWallMs, fromMs: sentMs, lifetimeMs: 0 });
    }
    return wasRejected;
  }

  /** What the expiry policy answered for a token. */
  stated(value: string, lifetimeMs: unknown): void {
    const issued = this.#issued.get(value);
    if (issued) issued.lifetimeMs = Math.max(issued.lifetimeMs, validLifetimeMs(lifetimeMs));
  }

  /** Checks a token that a call was given. Returns whether it is of the owner's current generation. */
  checkGiven(call: Call, token: AccessToken): boolean {
    const { clock } = this.#world;
    const { owner } = call;
    const { value } = token;
    const issued = this.#issued.get(value);
    if (!issued) {
      this.#broken('a token was given that nobody issued here');
      return false;
    }
    if (issued.owner !== owner) this.#broken(`owner ${owner} was given a token of owner ${issued.owner}`);
    if (call.aborted) this.#broken('an aborted call was given a token');
    if (call.held !== undefined && call.held !== value) this.#broken('another token was given than the one held');
    if (issued.generation < call.generation) this.#broken('a token of an earlier generation was given');
    const { lifetimeMs } = issued;
    const lifeMs = lifetimeMs - Math.min(lifetimeMs * 0.05, 10_000) + INEXACT_MS;
    if (token.expiresAtMs > issued.fromWallMs + lifeMs) this.#broken('a token claims to live longer than it does');
    if (clock.wallMs >= issued.fromWallMs + lifeMs) this.#broken('a token was given past its expiry by the wall clock');
    if (clock.monotonicMs >= issued.fromMs + lifeMs)
      this.#broken('a token was given past its expiry by the monotonic clock');
    if (this.#isRoomy && this.rejectedOf(owner).includes(value) && call.rejectedBefore.includes(value)) {
      this.#broken('a token was given that had been rejected before the call');
    }
    return issued.generation === this.generation[owner];
  }

  /** The registry now holds this token, and must go on holding it. */
  nowHeld(owner: number, token: AccessToken): void {
    if (!this.#isRoomy) return;
    const { wallMs, timelineMs } = this.#world.clock;
    this.#held[owner] = { value: token.value, untilMs: timelineMs + token.expiresAtMs - wallMs - 1 };
  }

  checkStillHeld(owner: number, value: string | undefined): void {
    const held = this.#held[owner];
    if (!held) return;
    if (this.#world.clock.timelineMs >= held.untilMs) this.#held[owner] = undefined;
    else if (value !== held.value) this.#broken('a usable token was lost');
  }

  #checkRequest(owner: number, { held, rejected, reason }: TokenRequest, isSecond: boolean): void {
    for (const token of [held, rejected]) {
      if (token && this.#issued.get(token.value)?.owner !== owner)
        this.#broken("a source was shown another owner's token");
    }
    // The second request of a refresh is made because of the first one's result.
    if (isSecond) return;
    if ((reason === 'refresh') !== (held !== undefined))
      this.#broken(`a request for ${reason} with or without a token`);
    if (held && this.#world.clock.wallMs >= held.expiresAtMs) this.#broken('an expired token was refreshed');
  }
}

/** The contract's rule for a stated lifetime, written independently of the registry's. */
function validLifetimeMs(stated: unknown): number {
  const tenYearsMs = 10 * 365 * 24 * 3_600_000;
  if (stated === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
  return typeof stated === 'number' && stated > 0 && stated <= tenYearsMs ? stated : 300_000;
}
