import { describe, expect, it } from 'vitest';
import type { Instant } from '../../src/clock.ts';
import { Fingerprints } from '../../src/registry/fingerprints.ts';
import type { HeldToken } from '../../src/registry/slot.ts';
import { type DatedToken, dateIssued, heldTokenFrom } from '../../src/registry/source-call.ts';
import { at, machine } from '../helpers/instants.ts';

const invalidResponse = (message: string) =>
  expect.objectContaining({ code: 'invalid_response', message: expect.stringContaining(message) });

describe('the date of a grant', () => {
  /** Sent at one monotonic time and received at another; the wall clock jumps in between. */
  const dated = (requestedAtMs: number | undefined, sentMs: number, nowMs: number, jumpedMs = 0) => {
    const time = machine();
    const issued = { token: 't', ...(requestedAtMs !== undefined && { requestedAtMs }) };
    return dateIssued(issued, time(sentMs), time(nowMs, jumpedMs)).requestedAtMs;
  };

  it('the date of a grant is by whichever clock says longer ago, where the source says none', () => {
    // Set back by 50 while the answer was on its way: by the new time it was asked for at 50.
    expect(dated(undefined, 100, 300, -50)).toBe(1_000_050);
    // Set on by 50: by the old time it was asked for at 100.
    expect(dated(undefined, 100, 300, 50)).toBe(1_000_100);
  });

  it('the date of a grant goes back with a clock that was set back since, but not for two readings that differ a little', () => {
    expect(dated(1_000_100, 100, 1000, -600)).toBe(999_500);
    expect(dated(1_000_100, 100, 1000, -21)).toBe(1_000_079);
    expect(dated(1_000_100, 100, 1000, -20)).toBe(1_000_100);
    expect(dated(1_000_100, 100, 1000, 600)).toBe(1_000_100);
  });
});

describe('the token that is held', () => {
  const fingerprints = new Fingerprints(new Uint8Array(16));
  const grantOf = (token: string, requestedAtMs = 1_000_000): DatedToken => ({ token, requestedAtMs });
  const hold = (
    grant: DatedToken,
    lifetimeMs: number,
    now: Instant,
    previous?: HeldToken,
    hint?: { refreshAfterMs: number },
  ) => {
    const slot = { held: previous?.token, aheadMs: previous?.aheadMs ?? 0 };
    const settings = { refreshWindow: [0.6, 0.8] as [number, number], random: () => 0.5 };
    return heldTokenFrom(settings, grant, { lifetimeMs, ...hint }, slot, now, fingerprints);
  };
  const jwt = (claims: object) => `x.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.y`;

  it('the token that is held is refreshed as early as the hint asks, whether or not the token ends', () => {
    const hint = { refreshAfterMs: 8000 };
    const ending = hold(grantOf('t'), 60_000, at(100), undefined, hint);
    expect(ending.token).toMatchObject({ refreshAtMs: 1_007_000, expiresAtMs: 1_057_000 });
    const endless = hold(grantOf('t'), Infinity, at(100), undefined, hint);
    expect(endless.token).toMatchObject({ refreshAtMs: 1_007_000, expiresAtMs: Infinity });
  });

  it('the token that is held is none when it says of itself that it has ended, unless it is kept until rejected', () => {
    const ended = grantOf(jwt({ exp: 1000.5 }));
    expect(() => hold(ended, 1000, at(499))).not.toThrow();
    expect(() => hold(ended, 1000, at(500))).toThrow(invalidResponse('had expired on arrival'));
    expect(() => hold(ended, Number.POSITIVE_INFINITY, at(500))).not.toThrow();
    expect(() => hold(grantOf(jwt({ iat: 1 })), 1000, at(500))).not.toThrow();
  });

  describe('a token that the service issues again', () => {
    const first = hold(grantOf('t'), 1000, at(0));

    it('a token that the service issues again keeps its end, and is refreshed in proportion to what is left', () => {
      const again = hold(grantOf('t', 1_000_475), 1000, at(475), first);
      expect(again.token).toMatchObject({ issuedAtMs: 1_000_475, expiresAtMs: 1_000_950 });
      // Half of its life is left: the refresh point, 700 of 950, comes after 350.
      expect(again.token.refreshAtMs).toBe(1_000_825);
    });

    it('a token that the service issues again keeps its end on the timeline when the wall clock was set back', () => {
      const again = hold(grantOf('t', 1_000_100), 1000, machine()(400, -300), first);
      expect(again.token.expiresAtMs + again.aheadMs).toBe(1_000_950);
      expect(again.token.refreshAtMs).toBeLessThanOrEqual(again.token.expiresAtMs);
    });
  });
});
