/** The tokens that a service has issued, by its own time. */

export interface Token {
  readonly value: string;
  readonly owner: string;
  readonly issuedMs: number;
  /** The API accepts it from then on. */
  readonly validFromMs: number;
  readonly endsMs: number;
  revoked: boolean;
}

/** How a service issues tokens. */
export interface Issuing {
  readonly lifeMs: number;
  readonly validAfterMs?: number | undefined;
  /** A new token revokes the owner's one before. */
  readonly revokesPrevious?: boolean | undefined;
  /** While the owner's token is alive, it is issued again. */
  readonly repeats?: boolean | undefined;
}

export class Tokens {
  /** The newest token of each owner. */
  readonly newest = new Map<string, Token>();
  readonly #byValue = new Map<string, Token>();

  /** @param toValue the value of a new token, given its number. */
  issue(owner: string, nowMs: number, how: Issuing, toValue: (number: number) => string): Token {
    const { lifeMs, validAfterMs = 0, revokesPrevious, repeats } = how;
    const before = this.newest.get(owner);
    if (before && repeats && isAlive(before, owner, nowMs)) return before;
    if (before && revokesPrevious) before.revoked = true;
    const [issuedMs, validFromMs, endsMs] = [nowMs, nowMs + validAfterMs, nowMs + lifeMs];
    const value = toValue(this.#byValue.size + 1);
    const token = { value, owner, issuedMs, validFromMs, endsMs, revoked: false };
    this.#byValue.set(value, token);
    this.newest.set(owner, token);
    return token;
  }

  find(value: string): Token | undefined {
    return this.#byValue.get(value);
  }
}

/** Whether an API that knows nothing else accepts this token of an owner. */
export function isAlive(token: Token | undefined, owner: string, nowMs: number): boolean {
  if (!token || token.owner !== owner || token.revoked) return false;
  return nowMs >= token.validFromMs && nowMs < token.endsMs;
}

/** A JWT. @param signature tells it from others. */
export function jwtOf(iatS: number, lifeS: number, signature: string): string {
  const claims = JSON.stringify({ iat: iatS, exp: iatS + lifeS });
  return `e30.${Buffer.from(claims).toString('base64url')}.${signature}`;
}
