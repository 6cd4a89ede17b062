import type { AccessKey } from './directory.ts';
import type { Secrets } from './secrets.ts';

/** A token that the sandbox issued. */
export interface IssuedToken {
  readonly fingerprint: string;
  readonly accessKey: AccessKey;
  readonly issuedAtMs: number;
  readonly expiresAtMs: number;
  /** Replication lag: resources reject the token until then. */
  readonly usableFromMs: number;
  /** When it was revoked. */
  revokedAtMs: number | undefined;
  /** Whether a resource answered 401 to it, so that its holder knows it is useless. */
  refused: boolean;
  /** Whether the answer with this token was sent completely, to its owner. */
  delivered: boolean;
}

export type TokenState = 'live' | 'unknown' | 'expired' | 'revoked' | 'lagging';

export interface IssueOptions {
  format: 'opaque' | 'jwt';
  lifetimeMs: number;
  revokePrevious: boolean;
  replicationLagMs: number;
  /** Sent to another owner: its own owner neither gets it nor loses a token by it. */
  stray?: boolean;
  /** Revoked from the start. */
  stillborn?: boolean;
}

/** Beyond this many tokens the oldest are dropped, and are unknown from then on. */
const MAX_TOKENS = 100_000;

/** How many of each owner's last tokens are kept, to tell whether it has a usable one without a pass over all tokens. */
const MAX_LAST = 10;

/** The issued tokens and their state. */
export class Tokens {
  readonly #secrets: Secrets;
  readonly #byValue = new Map<string, IssuedToken>();
  /** The newest token of each access key that went to its owner. */
  readonly #newest = new Map<string, IssuedToken>();
  /** The last tokens that went to each owner, oldest first. */
  readonly #lastOf = new Map<string, IssuedToken[]>();
  /** Called when a token was issued or revoked. */
  onChange: ((token: IssuedToken) => void) | undefined;

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
  }

  issue(accessKey: AccessKey, nowMs: number, options: IssueOptions): { value: string; token: IssuedToken } {
    const id = this.#secrets.random('sbx_');
    const expiresAtMs = nowMs + options.lifetimeMs;
    const value = options.format === 'opaque' ? id : this.#secrets.jwt(claimsOf(id, accessKey, nowMs, expiresAtMs));
    const token: IssuedToken = {
      fingerprint: this.#secrets.fingerprint(value),
      accessKey,
      issuedAtMs: nowMs,
      expiresAtMs,
      usableFromMs: nowMs + options.replicationLagMs,
      revokedAtMs: options.stillborn ? nowMs : undefined,
      refused: false,
      delivered: !options.stray,
    };
    const previous = this.#newest.get(accessKey.id);
    if (previous && options.revokePrevious && !options.stray) this.#end(previous, nowMs);
    this.#byValue.set(value, token);
    if (!options.stray) this.#keepLast(token);
    this.#dropOldest();
    this.onChange?.(token);
    return { value, token };
  }

  find(value: string): IssuedToken | undefined {
    return this.#byValue.get(value);
  }

  stateOf(token: IssuedToken | undefined, nowMs: number): TokenState {
    if (!token) return 'unknown';
    if (token.revokedAtMs !== undefined) return 'revoked';
    if (nowMs >= token.expiresAtMs) return 'expired';
    return nowMs < token.usableFromMs ? 'lagging' : 'live';
  }

  /** The token that makes another request for this key a waste; see {@link isGood}. */
  goodTokenOf(accessKey: AccessKey, nowMs: number): IssuedToken | undefined {
    const newest = this.#newest.get(accessKey.id);
    return newest && isGood(newest, nowMs) ? newest : undefined;
  }

  /** The owners that hold a usable token, with the end of the newest: delivered, not revoked, not expired. */
  coveredOwners(nowMs: number): Map<string, number> {
    const covered = new Map<string, number>();
    for (const [owner, tokens] of this.#lastOf) {
      const usable = usableOf(tokens, nowMs);
      if (usable) covered.set(owner, usable.expiresAtMs);
    }
    return covered;
  }

  /** The number of these owners, computed for each frame of the portal. */
  ownersCovered(nowMs: number): number {
    let covered = 0;
    for (const tokens of this.#lastOf.values()) if (usableOf(tokens, nowMs)) covered++;
    return covered;
  }

  /** Revokes this token, if it is known. */
  revoke(value: string, nowMs: number): void {
    const token = this.#byValue.get(value);
    if (token) this.#end(token, nowMs);
  }

  /** Revokes every token that matches and returns how many of them were live. */
  revokeWhere(matches: (token: IssuedToken) => boolean, nowMs: number): number {
    let revoked = 0;
    for (const token of this.#byValue.values()) {
      if (!matches(token)) continue;
      if (this.stateOf(token, nowMs) === 'live') revoked++;
      this.#end(token, nowMs);
    }
    return revoked;
  }

  /** The tokens whose lifetime ends after a time, oldest first. */
  *endingAfter(fromMs: number): Iterable<IssuedToken> {
    for (const token of this.#byValue.values()) if (token.expiresAtMs > fromMs) yield token;
  }

  clear(): void {
    this.#byValue.clear();
    this.#newest.clear();
    this.#lastOf.clear();
  }

  #keepLast(token: IssuedToken): void {
    const { id, ownerId } = token.accessKey;
    this.#newest.set(id, token);
    this.#lastOf.set(ownerId, [...(this.#lastOf.get(ownerId) ?? []).slice(1 - MAX_LAST), token]);
  }

  #end(token: IssuedToken, nowMs: number): void {
    if (token.revokedAtMs !== undefined) return;
    token.revokedAtMs = nowMs;
    this.onChange?.(token);
  }

  /** Drops many at a time, because finding the first key of a map takes as long as keys before it were deleted. */
  #dropOldest(): void {
    if (this.#byValue.size <= MAX_TOKENS) return;
    let left = MAX_TOKENS / 10;
    for (const value of this.#byValue.keys()) {
      if (left-- === 0) return;
      this.#byValue.delete(value);
    }
  }
}

/**
 * Whether a token is good enough to make another request a waste: delivered, not revoked, not rejected, and with more
 * than half of its lifetime left. Renewing in the second half may have good reasons.
 */
function isGood(token: IssuedToken, nowMs: number): boolean {
  const leftMs = token.expiresAtMs - nowMs;
  return (
    token.delivered &&
    token.revokedAtMs === undefined &&
    !token.refused &&
    leftMs > (token.expiresAtMs - token.issuedAtMs) / 2
  );
}

/** The newest of these that is delivered, not revoked and not expired. */
function usableOf(tokens: readonly IssuedToken[], nowMs: number): IssuedToken | undefined {
  for (let index = tokens.length - 1; index >= 0; index--) {
    const token = tokens[index];
    if (token?.delivered && token.revokedAtMs === undefined && nowMs < token.expiresAtMs) return token;
  }
  return undefined;
}

function claimsOf(id: string, accessKey: AccessKey, nowMs: number, expiresAtMs: number): object {
  const seconds = (ms: number) => Math.floor(ms / 1000);
  return { iss: 'sandbox', sub: accessKey.ownerId, jti: id, iat: seconds(nowMs), exp: seconds(expiresAtMs) };
}
