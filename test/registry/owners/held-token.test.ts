import { describe, expect, it } from 'vitest';
import type { Instant } from '../../../src/clock.ts';
import { Fingerprints } from '../../../src/registry/owners/fingerprints.ts';
import { type DatedToken, dateIssued, heldTokenFrom } from '../../../src/registry/owners/held-token.ts';
import type { HeldToken } from '../../../src/registry/owners/slot.ts';
import { at, machine } from '../../helpers/instants.ts';
import { jwt } from '../../helpers/jwt.ts';

const invalidResponse = (message: string) =>
  expect.objectContaining({ code: 'invalid_response', message: expect.stringContaining(message) });

describe('the date of an issued token', () => {
  /** Sent at one monotonic time and received at another; the wall clock jumps in between. */
  const dated = (requestedAtMs: number | undefined, sentMs: number, nowMs: number, jumpedMs = 0) => {
    const time = machine();
    const issued = { token: 't', ...(requestedAtMs !== undefined && { requestedAtMs }) };
    return dateIssued(issued, time(sentMs), time(nowMs, jumpedMs)).requestedAtMs;
  };

  it('is given by the clock with the earlier time if the token has none', () => {
    // Set back by 50 while the answer was on its way: by the new time it was asked for at 50.
    expect(dated(undefined, 100, 300, -50)).toBe(1_000_050);
    // Set on by 50: by the old time it was asked for at 100.
    expect(dated(undefined, 100, 300, 50)).toBe(1_000_100);
  });

  it('moves back with a clock that was set back, unless the readings differ by at most 20 ms', () => {
    expect(dated(1_000_100, 100, 1000, -600)).toBe(999_500);
    expect(dated(1_000_100, 100, 1000, -21)).toBe(1_000_079);
    expect(dated(1_000_100, 100, 1000, -20)).toBe(1_000_100);
    expect(dated(1_000_100, 100, 1000, 600)).toBe(1_000_100);
  });
});

describe('the held token', () => {
  const fingerprints = new Fingerprints(new Uint8Array(16));
  const issuedOf = (token: string, requestedAtMs = 1_000_000): DatedToken => ({ token, requestedAtMs });
  const hold = (
    issued: DatedToken,
    lifetimeMs: number,
    now: Instant,
    previous?: HeldToken,
    hint?: { refreshAfterMs: number },
    responseFields: string[] = [],
  ) => {
    const slot = { held: previous?.token, offsetMs: previous?.offsetMs ?? 0 };
    const settings = { refreshWindow: [0.6, 0.8] as [number, number], random: () => 0.5, fingerprints, responseFields };
    return heldTokenFrom(settings, issued, { lifetimeMs, isStated: true, ...hint }, slot, now);
  };

  it('is refreshed as early as the policy asks, whether or not it expires', () => {
    const hint = { refreshAfterMs: 8000 };
    const ending = hold(issuedOf('t'), 60_000, at(100), undefined, hint);
    expect(ending.token).toMatchObject({ refreshAtMs: 1_007_000, expiresAtMs: 1_057_000 });
    const endless = hold(issuedOf('t'), Infinity, at(100), undefined, hint);
    expect(endless.token).toMatchObject({ refreshAtMs: 1_007_000, expiresAtMs: Infinity });
  });

  it('has times of whole milliseconds, none later than the clock and the plan say', () => {
    const { token } = hold(issuedOf('t', 1_000_000.7), 60_000, at(100), undefined, { refreshAfterMs: 8000 });
    expect(token).toMatchObject({ issuedAtMs: 1_000_000, refreshAtMs: 1_007_000, expiresAtMs: 1_057_000 });
  });

  it('is refused if it is a JWT whose exp has passed, unless tokens are kept until rejected', () => {
    const ended = issuedOf(jwt({ exp: 1000.5 }));
    expect(() => hold(ended, 1000, at(499))).not.toThrow();
    expect(() => hold(ended, 1000, at(500))).toThrow(invalidResponse('had already expired when it arrived'));
    expect(() => hold(ended, Number.POSITIVE_INFINITY, at(500))).not.toThrow();
    expect(() => hold(issuedOf(jwt({ iat: 1 })), 1000, at(500))).not.toThrow();
  });

  describe('from an answer with further fields', () => {
    const carried = (response: unknown, ...names: string[]) =>
      hold({ ...issuedOf('t'), response } as DatedToken, 1000, at(0), undefined, undefined, names).token.response;

    it('carries those that are listed, if they are strings, numbers or booleans', () => {
      const response = {
        instance_url: 'https://eu1',
        id: 7,
        trial: false,
        data: { account: 'a' },
        list: ['x'],
        none: null,
      };
      const fields = carried(response, 'instance_url', 'id', 'trial', 'data.account', 'data', 'list', 'none', 'absent');
      expect({ ...fields }).toEqual({ instance_url: 'https://eu1', id: 7, trial: false, 'data.account': 'a' });
      expect(Object.isFrozen(fields)).toBe(true);
    });

    it('carries none without a list, and none of a prototype or of an answer that is no object', () => {
      expect({ ...carried({ id: 7 }) }).toEqual({});
      expect({ ...carried({}, 'constructor', 'toString.name', '__proto__') }).toEqual({});
      for (const response of [undefined, null, 'text', []]) expect({ ...carried(response, 'id') }).toEqual({});
      expect(carried({}, 'id').constructor).toBeUndefined();
    });

    it('carries no string of more than 2,048 bytes, however few characters it has', () => {
      const fields = carried({ a: 'x'.repeat(2048), b: 'x'.repeat(2049), c: 'é'.repeat(1025) }, 'a', 'b', 'c');
      expect(Object.keys(fields)).toEqual(['a']);
    });
  });

  describe('when it is re-issued', () => {
    const first = hold(issuedOf('t'), 1000, at(0));

    it('keeps its expiry, and is refreshed in proportion to the life that is left', () => {
      const again = hold(issuedOf('t', 1_000_475), 1000, at(475), first);
      expect(again.token).toMatchObject({ issuedAtMs: 1_000_475, expiresAtMs: 1_000_950 });
      // Half of its life is left: the refresh point, 700 of 950, comes after 350.
      expect(again.token.refreshAtMs).toBe(1_000_825);
    });

    it('keeps its expiry on the timeline when the wall clock was set back', () => {
      const again = hold(issuedOf('t', 1_000_100), 1000, machine()(400, -300), first);
      expect(again.token.expiresAtMs + again.offsetMs).toBe(1_000_950);
      expect(again.token.refreshAtMs).toBeLessThanOrEqual(again.token.expiresAtMs);
    });
  });
});
