import type { AccessKey } from './directory.ts';
import type { Secrets } from './secrets.ts';

/** What the sandbox knows of a token it gave out. */
export interface IssuedToken {
  readonly fingerprint: string;
  readonly accessKey: AccessKey;
  readonly issuedAtMs: number;
  readonly expiresAtMs: number;
  /** Until then the resources do not know it yet: replication lag. */
  readonly usableFromMs: number;
  /** When it was revoked. */
  revokedAtMs: number | undefined;
  /** Whether a resource has answered 401 to it: whoever holds it knows that it is of no use. */
  refused: boolean;
  /** Whether the answer that carried it went out whole. */
  delivered: boolean;
}

export type TokenState = 'live' | 'unknown' | 'expired' | 'revoked' | 'lagging';

export interface IssueOptions {
  format: 'opaque' | 'jwt';
  lifetimeMs: number;
  revokePrevious: boolean;
  replicationLagMs: number;
  /** It goes to somebody else than its owner, who neither knows of it nor loses a token by it. */
  stray?: boolean;
  /** It is revoked from the start. */
  stillborn?: boolean;
}

/** Tokens kept at most; the oldest are dropped beyond it and are unknown then. */
const MAX_TOKENS = 100_000;

/** The tokens given out, and what has become of them. */
export class Tokens {
  readonly #secrets: Secrets;
  readonly #byValue = new Map<string, IssuedToken>();
  /** The newest token of each access key that its holder is known to have. */
  readonly #newest = new Map<string, IssuedToken>();
  /** Called when a token was issued or revoked. */
  onChange: ((token: IssuedToken) => void) | undefined;

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
  }

  issue(accessKey: AccessKey, nowMs: number, options: IssueOptions): { value: string; token: IssuedToken } {
    const id = this.#secrets.next('sbx_');
    // Drawn and not worked out of the token, which takes longer than all the rest.
    const fingerprint = this.#secrets.next('').slice(0, 10);
    const expiresAtMs = nowMs + options.lifetimeMs;
    const value = options.format === 'opaque' ? id : this.#secrets.jwt(claimsOf(id, accessKey, nowMs, expiresAtMs));
    const token: IssuedToken = {
      fingerprint,
      accessKey,
      issuedAtMs: nowMs,
      expiresAtMs,
      usableFromMs: nowMs + options.replicationLagMs,
      revokedAtMs: options.stillborn ? nowMs : undefined,
      refused: false,
      delivered: true,
    };
    const previous = this.#newest.get(accessKey.id);
    if (previous && options.revokePrevious && !options.stray) this.#end(previous, nowMs);
    this.#byValue.set(value, token);
    if (!options.stray) this.#newest.set(accessKey.id, token);
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

  /** The token that makes a further request for this key a waste; see {@link isGood}. */
  goodTokenOf(accessKey: AccessKey, nowMs: number): IssuedToken | undefined {
    const newest = this.#newest.get(accessKey.id);
    return newest && isGood(newest, nowMs) ? newest : undefined;
  }

  /** Revokes this token, if it is known. */
  revoke(value: string, nowMs: number): void {
    const token = this.#byValue.get(value);
    if (token) this.#end(token, nowMs);
  }

  /** Revokes every token that matches; returns how many of them were live until now. */
  revokeWhere(matches: (token: IssuedToken) => boolean, nowMs: number): number {
    let revoked = 0;
    for (const token of this.#byValue.values()) {
      if (!matches(token)) continue;
      if (this.stateOf(token, nowMs) === 'live') revoked++;
      this.#end(token, nowMs);
    }
    return revoked;
  }

  /** What is known of every token that has not ended, the oldest first. */
  *entries(nowMs: number): Iterable<[value: string, token: IssuedToken]> {
    for (const entry of this.#byValue) if (nowMs < entry[1].expiresAtMs) yield entry;
  }

  /** Takes over a token that a state file holds. */
  restore(
    value: string,
    facts: Pick<IssuedToken, 'fingerprint' | 'accessKey' | 'issuedAtMs' | 'expiresAtMs' | 'usableFromMs'> & {
      revokedAtMs?: number;
    },
  ): void {
    const { revokedAtMs, ...rest } = facts;
    const token = { ...rest, revokedAtMs, refused: false, delivered: true };
    this.#byValue.set(value, token);
    this.#newest.set(token.accessKey.id, token);
  }

  clear(): void {
    this.#byValue.clear();
    this.#newest.clear();
  }

  #end(token: IssuedToken, nowMs: number): void {
    if (token.revokedAtMs !== undefined) return;
    token.revokedAtMs = nowMs;
    this.onChange?.(token);
  }

  /** Many at a time: to find the first of a map that has lost its first ones takes as long as they were many. */
  #dropOldest(): void {
    if (this.#byValue.size <= MAX_TOKENS) return;
    let left = MAX_TOKENS / 10;
    for (const [value] of this.#byValue) {
      if (left-- === 0) return;
      this.#byValue.delete(value);
    }
  }
}

/**
 * Whether a token is so good that asking for another is a waste: it reached its holder, was neither revoked nor
 * refused, and has more than half of its life left. Whoever renews in the second half may have good reasons.
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

function claimsOf(id: string, accessKey: AccessKey, nowMs: number, expiresAtMs: number): object {
  const seconds = (ms: number) => Math.floor(ms / 1000);
  return { iss: 'sandbox', sub: accessKey.ownerId, jti: id, iat: seconds(nowMs), exp: seconds(expiresAtMs) };
}
