/**
 * The oracle's own account of one registry's tokens: which were issued, rejected or forgotten, and which one the registry
 * must still hold or serve. From it follows whether a caller may be given a token.
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
  readonly token: AccessToken;
  readonly untilMs: number;
}

/** Sums of epoch milliseconds and fractions are this inexact. */
const INEXACT_MS = 0.01;

export class TokenAccount {
  /** By owner; raised by each `forget`. */
  readonly generation: number[];
  readonly #world: WorldView;
  readonly #broken: (what: string) => void;
  /** Nothing is evicted, so what the registry remembers of an owner stays until it is forgotten. */
  readonly #isRoomy: boolean;
  readonly #issued = new Map<string, Issued>();
  readonly #everRejected = new Set<string>();
  /** By owner: the token that calls must be served with. */
  readonly #served: (Held | undefined)[];
  /** By owner: the token that the registry has, which may have been rejected. */
  readonly #held: (Held | undefined)[];

  constructor(world: WorldView, owners: number, options: WatchedOptions, broken: (what: string) => void) {
    this.#world = world;
    this.#broken = broken;
    this.#isRoomy = options.maxOwners >= owners;
    this.generation = Array(owners).fill(0);
    this.#served = Array(owners).fill(undefined);
    this.#held = Array(owners).fill(undefined);
  }

  wasRejected(value: string): boolean {
    return this.#everRejected.has(value);
  }

  rejected(owner: number, value: string): void {
    this.#everRejected.add(value);
    if (this.#served[owner]?.token.value === value) this.#served[owner] = undefined;
  }

  /** Calls must be served with the held token, although it was rejected, for this time or until it ends. */
  mustServe(owner: number, forMs = Number.POSITIVE_INFINITY): void {
    const held = this.#held[owner];
    const untilMs = this.#world.clock.timelineMs + forMs - 1;
    this.#served[owner] = held && { ...held, untilMs: Math.min(held.untilMs, untilMs) };
  }

  /** Whether the registry has this very token and it has not ended. */
  isHeld(owner: number, token: AccessToken): boolean {
    return this.#held[owner]?.token === token && this.livesUntilMs(owner) > this.#world.clock.timelineMs;
  }

  /** When the token that the registry has ends, on the timeline. */
  livesUntilMs(owner: number): number {
    return this.#held[owner]?.untilMs ?? Number.NEGATIVE_INFINITY;
  }

  /** The operator asks for a newer token: one that was rejected need not be served any longer. */
  resumed(owner: number): void {
    const served = this.#served[owner];
    if (served && this.wasRejected(served.token.value)) this.#served[owner] = undefined;
  }

  forgotten(owner: number): void {
    this.generation[owner] = (this.generation[owner] as number) + 1;
    this.#forget(owner);
  }

  /** The registry may have dropped any token. */
  holdsNothing(): void {
    this.#held.fill(undefined);
    this.#served.fill(undefined);
  }

  /** A request was sent. `isTrial`: perhaps a canary, which is a refresh of any token. */
  requested(owner: number, request: TokenRequest, isTrial: boolean): void {
    this.#checkRequest(owner, request);
    const { clock } = this.#world;
    const served = this.#served[owner];
    if (request.reason === 'rejected' && served && clock.timelineMs < served.untilMs) {
      const isDue = clock.wallMs >= served.token.refreshAtMs;
      if (!isTrial && !isDue) this.#broken('a token was replaced while it must be kept');
    }
    // The next request drops an expired token: it does not come back when the clock is set back.
    if (request.reason === 'absent' || request.reason === 'expired') this.#forget(owner);
  }

  /** Takes note of an issued token. */
  issued({ owner, sentMs, sentWallMs, generation }: Asked, value: string): void {
    const { monotonicMs, wallMs } = this.#world.clock;
    const fromWallMs = Math.min(sentWallMs, wallMs - (monotonicMs - sentMs));
    this.#forget(owner);
    const before = this.#issued.get(value);
    if (before) {
      before.generation = Math.max(before.generation, generation);
      before.fromWallMs = Math.max(before.fromWallMs, fromWallMs);
      before.fromMs = Math.max(before.fromMs, sentMs);
    } else {
      const ownerOfToken = Number(value.slice(value.lastIndexOf('-') + 1));
      this.#issued.set(value, { owner: ownerOfToken, generation, fromWallMs, fromMs: sentMs, lifetimeMs: 0 });
    }
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
    return issued.generation === this.generation[owner];
  }

  /** The registry now holds this token, and must go on holding it, and serving it if it was not rejected. */
  nowHeld(owner: number, token: AccessToken): void {
    if (!this.#isRoomy) return;
    const { wallMs, timelineMs } = this.#world.clock;
    const held = { token, untilMs: timelineMs + token.expiresAtMs - wallMs - 1 };
    this.#held[owner] = held;
    if (!this.wasRejected(token.value)) this.#served[owner] = held;
  }

  checkStillServed(owner: number, value: string | undefined): void {
    const served = this.#served[owner];
    if (!served) return;
    if (this.#world.clock.timelineMs >= served.untilMs) this.#served[owner] = undefined;
    else if (value !== served.token.value) this.#broken('a usable token was lost');
  }

  #forget(owner: number): void {
    this.#held[owner] = undefined;
    this.#served[owner] = undefined;
  }

  #checkRequest(owner: number, { held, rejected, reason }: TokenRequest): void {
    for (const token of [held, rejected]) {
      if (token && this.#issued.get(token.value)?.owner !== owner)
        this.#broken("a source was shown another owner's token");
    }
    // A rejected token may still be held, but need not be.
    if (reason !== 'rejected' && (reason === 'refresh') !== (held !== undefined))
      this.#broken(`a request for ${reason} with or without a token`);
    if ((reason === 'rejected') !== (rejected !== undefined))
      this.#broken(`a request for ${reason} with or without a rejected token`);
    if (held && this.#world.clock.wallMs >= held.expiresAtMs) this.#broken('an expired token was refreshed');
  }
}

/** The contract's rule for a stated lifetime, written independently of the registry's. */
function validLifetimeMs(stated: unknown): number {
  const tenYearsMs = 10 * 365 * 24 * 3_600_000;
  if (stated === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
  return typeof stated === 'number' && stated > 0 && stated <= tenYearsMs ? stated : 300_000;
}
