import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorCode, type OwnerTokenErrorOptions } from '../../src/errors.ts';
import type { OwnerStanding, Permit } from '../../src/failures/circuit-breaker.ts';
import { FailureScopes } from '../../src/failures/failure-scopes.ts';

const RANGES = {
  owner: { baseMs: 1_000, capMs: 300_000 },
  client: { baseMs: 1_000, capMs: 60_000 },
  endpoint: { baseMs: 500, capMs: 30_000 },
};

const error = (code: OwnerTokenErrorCode, options: OwnerTokenErrorOptions = {}) =>
  new OwnerTokenError(code, 'it failed', options);
const refused = error('endpoint_unavailable', { failureScope: 'endpoint' });
const timedOut = error('endpoint_unavailable');
const badSecret = error('client_refused');
const badKey = error('owner_refused', { oauthError: 'invalid_grant', failureScope: 'owner' });
const plain4xx = error('owner_refused', { status: 400 });

/** Jitter at its middle: three quarters of each length. */
const make = (concurrency = 16) => new FailureScopes({ ranges: RANGES, concurrency, random: () => 0.5 });

function admitted(pauses: FailureScopes, nowMs: number, standing: OwnerStanding = 'proven'): Permit {
  const permit = pauses.admit(nowMs, standing);
  if (!permit) throw new Error('expected to be admitted');
  return permit;
}

/** The request of this permit fails so. */
const failed = (
  pauses: FailureScopes,
  permit: Permit,
  error: OwnerTokenError,
  owner: string,
  ownerFailures: number,
  nowMs: number,
  sentAtMs = nowMs,
) => pauses.failed({ permit, error, owner, ownerFailures, nowMs, sentAtMs });

/** One request of this owner that fails so, at this time. */
const fail = (pauses: FailureScopes, failure: OwnerTokenError, nowMs = 0, owner = 'a', failuresBefore = 0) =>
  failed(
    pauses,
    admitted(pauses, nowMs, failuresBefore > 0 ? 'failing' : 'proven'),
    failure,
    owner,
    failuresBefore,
    nowMs,
  );

describe('a failure of one owner', () => {
  it('pauses that owner, longer each time, and no gate', () => {
    const pauses = make();
    expect(fail(pauses, badKey)).toMatchObject({
      scope: 'owner',
      ownerPause: { count: 1, retryAtMonotonicMs: 750, error: badKey },
      circuitPause: undefined,
      lifted: [],
    });
    expect(fail(pauses, badKey, 1000, 'a', 3).ownerPause).toMatchObject({ count: 4, retryAtMonotonicMs: 7000 });
    expect(pauses.pauseFor(1000, 'proven')).toBeUndefined();
    expect(pauses.limit).toBe(16);
  });

  it('that is called so on purpose never becomes anybody else’s', () => {
    const pauses = make();
    const onPurpose = error('endpoint_unavailable', { failureScope: 'owner' });
    for (const owner of ['a', 'b', 'c', 'd']) expect(fail(pauses, onPurpose, 0, owner).scope).toBe('owner');
    for (const owner of ['e', 'f', 'g']) expect(fail(pauses, error('source_failed'), 0, owner).scope).toBe('owner');
  });

  it('that says nothing of what it stops, as a source in a source may fail, stops that owner', () => {
    const pauses = make();
    for (const owner of ['a', 'b', 'c', 'd']) {
      const verdict = fail(pauses, error('queue_full'), 0, owner);
      expect(verdict).toMatchObject({ scope: 'owner', ownerPause: { count: 1 }, circuitPause: undefined });
    }
  });
});

describe('a gate', () => {
  it('refuses until its pause is over, then admits one probe and refuses the rest until it is answered', () => {
    const pauses = make();
    const { circuitPause, ownerPause, scope } = fail(pauses, badSecret);
    expect({ scope, ownerPause }).toEqual({ scope: 'client', ownerPause: undefined });
    expect(circuitPause).toMatchObject({ count: 1, retryAtMonotonicMs: 750, error: { failureScope: 'client' } });
    expect(pauses.pauseFor(749, 'proven')).toBe(circuitPause);
    expect(pauses.admit(749, 'proven')).toBeUndefined();
    expect(pauses.pauseFor(750, 'proven')).toBeUndefined();
    expect(pauses.state('client')).toEqual({ pause: circuitPause, probing: false });
    const probe = admitted(pauses, 750);
    expect(pauses.state('client')).toEqual({ pause: circuitPause, probing: true });
    expect(pauses.pauseFor(9999, 'proven')).toBe(circuitPause);
    expect(pauses.admit(9999, 'proven')).toBeUndefined();
    expect(failed(pauses, probe, badSecret, 'a', 0, 9999).circuitPause).toMatchObject({
      ...{ count: 2, retryAtMonotonicMs: 9999 + 1500 },
    });
    expect(pauses.state('endpoint')).toBeUndefined();
  });

  it('opens again when the probe is given back unanswered', () => {
    const pauses = make();
    fail(pauses, refused);
    const probe = admitted(pauses, 1000);
    pauses.cancel({ number: 99, standing: 'proven' });
    expect(pauses.admit(1000, 'proven')).toBeUndefined();
    pauses.cancel(probe);
    expect(pauses.admit(1000, 'proven')).toBeDefined();
  });

  it('ramps up after a success: one request, then twice as many after each, up to all', () => {
    const pauses = make(6);
    fail(pauses, refused);
    expect(pauses.succeeded(admitted(pauses, 1000))).toEqual(['endpoint']);
    expect(pauses.state('endpoint')).toBeUndefined();
    const limits = [pauses.limit];
    for (let n = 0; n < 4; n++) {
      expect(pauses.succeeded(admitted(pauses, 1000))).toEqual([]);
      limits.push(pauses.limit);
    }
    expect(limits).toEqual([1, 2, 4, 6, 6]);
  });

  it('that closes while it ramps starts anew: a first pause, and then one request', () => {
    const pauses = make();
    fail(pauses, refused);
    pauses.succeeded(admitted(pauses, 1000));
    pauses.succeeded(admitted(pauses, 1000));
    expect(fail(pauses, refused, 1000).circuitPause).toMatchObject({ count: 1, retryAtMonotonicMs: 1375 });
    expect(pauses.limit).toBe(16);
    pauses.succeeded(admitted(pauses, 2000));
    expect(pauses.limit).toBe(1);
  });

  it('is not concerned by the other: the tighter of the two counts', () => {
    const pauses = make();
    fail(pauses, refused);
    const probe = admitted(pauses, 400);
    failed(pauses, probe, badSecret, 'a', 0, 400);
    expect(pauses.state('endpoint')).toMatchObject({ probing: false });
    expect(pauses.pauseFor(400, 'proven')?.error.code).toBe('client_refused');
    const second = admitted(pauses, 2000);
    expect(pauses.succeeded(second)).toEqual(['client', 'endpoint']);
    expect(pauses.limit).toBe(1);
  });
});

describe('answers to requests from before a pause', () => {
  it('neither lift it nor make it grow', () => {
    const pauses = make();
    const [early, other] = [admitted(pauses, 0), admitted(pauses, 0)];
    const { circuitPause } = fail(pauses, refused);
    expect(pauses.succeeded(early)).toEqual([]);
    expect(failed(pauses, other, refused, 'b', 0, 200).circuitPause).toBe(circuitPause);
    expect(pauses.pauseFor(374, 'proven')).toBe(circuitPause);
    expect(pauses.pauseFor(375, 'proven')).toBeUndefined();
  });

  it('prolong it by a later Retry-After, and never shorten it', () => {
    const pauses = make();
    const [longer, shorter] = [admitted(pauses, 0), admitted(pauses, 0)];
    fail(pauses, error('rate_limited', { retryAfterMs: 5_000 }));
    const prolonged = failed(pauses, longer, error('rate_limited', { retryAfterMs: 9_000 }), 'b', 0, 100);
    expect(prolonged.circuitPause).toMatchObject({ count: 1, retryAtMonotonicMs: 9_100 });
    const after = failed(pauses, shorter, error('rate_limited', { retryAfterMs: 1_000 }), 'c', 0, 200);
    expect(after.circuitPause).toMatchObject({ retryAtMonotonicMs: 9_100 });
  });

  it('leave it as it is with a Retry-After that ends at the same moment', () => {
    const pauses = make();
    const same = admitted(pauses, 0);
    const { circuitPause } = fail(pauses, error('rate_limited', { retryAfterMs: 5_000 }));
    const again = failed(pauses, same, error('rate_limited', { retryAfterMs: 4_900 }), 'b', 0, 100);
    expect(again.circuitPause).toBe(circuitPause);
  });

  it('double no ramp, and count for no new pause', () => {
    const pauses = make();
    const late = ['a', 'b', 'c', 'd'].map(() => admitted(pauses, 0));
    fail(pauses, refused);
    pauses.succeeded(admitted(pauses, 1000));
    pauses.succeeded(late[0] as Permit);
    expect(pauses.limit).toBe(1);
    const scopes = late.slice(1).map((pass, n) => failed(pauses, pass, timedOut, `late ${n}`, 0, 1000).scope);
    expect(scopes).toEqual(['owner', 'owner', 'owner']);
  });
});

describe('widening', () => {
  it('makes the third distinct owner’s failure in a row the endpoint’s', () => {
    const pauses = make();
    expect(fail(pauses, timedOut, 0, 'a').scope).toBe('owner');
    expect(fail(pauses, timedOut, 0, 'a').scope).toBe('owner');
    expect(fail(pauses, timedOut, 0, 'b').scope).toBe('owner');
    const third = fail(pauses, error('invalid_response'), 0, 'c');
    expect(third).toMatchObject({ scope: 'endpoint', circuitPause: { count: 1, retryAtMonotonicMs: 375 } });
    expect(third.circuitPause?.error.failureScope).toBe('endpoint');
  });

  it('makes it the client’s for a 4xx without a code; the two kinds do not add up', () => {
    const pauses = make();
    fail(pauses, plain4xx, 0, 'a');
    fail(pauses, timedOut, 0, 'b');
    fail(pauses, plain4xx, 0, 'c');
    fail(pauses, timedOut, 0, 'd');
    expect(fail(pauses, plain4xx, 0, 'e').scope).toBe('client');
  });

  it('begins anew after any success, also of a request from before', () => {
    const pauses = make();
    const early = admitted(pauses, 0);
    fail(pauses, timedOut, 0, 'a');
    fail(pauses, timedOut, 0, 'b');
    pauses.succeeded(early);
    expect(fail(pauses, timedOut, 0, 'c').scope).toBe('owner');
    expect(fail(pauses, timedOut, 0, 'd').scope).toBe('owner');
    expect(fail(pauses, timedOut, 0, 'e').scope).toBe('endpoint');
  });

  it('does not count an owner that is known to fail', () => {
    const pauses = make();
    for (const owner of ['a', 'b', 'c', 'd']) expect(fail(pauses, timedOut, 0, owner, 1).scope).toBe('owner');
  });

  it('claims every such failure while the gate is not open', () => {
    const pauses = make();
    fail(pauses, refused);
    const verdict = fail(pauses, timedOut, 1000, 'z', 5);
    expect(verdict).toMatchObject({ scope: 'endpoint', circuitPause: { count: 2, retryAtMonotonicMs: 1750 } });
  });

  it('also pauses an owner that hung, beyond the gate, by its first step and without growth', () => {
    const pauses = make();
    const fails = (nowMs: number, tookMs: number, failuresBefore: number, options: OwnerTokenErrorOptions = {}) =>
      failed(
        pauses,
        ...([admitted(pauses, nowMs), error('endpoint_unavailable', options), 'z', failuresBefore] as const),
        ...([nowMs, nowMs - tookMs] as const),
      );
    fail(pauses, refused);
    const first = fails(1000, 501, 0, { retryAfterMs: 60_000 });
    expect(first.circuitPause?.retryAtMonotonicMs).toBe(61_000);
    expect(first).toMatchObject({ hung: true, ownerPause: { count: 1, retryAtMonotonicMs: 61_750 } });
    expect(fails(99_000, 501, 3).ownerPause?.count).toBe(3);
    const atOnce = fails(199_000, 500, 0);
    expect(atOnce).toMatchObject({ hung: false, scope: 'endpoint', ownerPause: { count: 1 } });
    expect(atOnce.ownerPause?.retryAtMonotonicMs).toBe(atOnce.circuitPause?.retryAtMonotonicMs);
  });
});

describe('a probe that is refused for its owner alone', () => {
  const probeWith = (scopeError: OwnerTokenError, answer: OwnerTokenError) => {
    const pauses = make();
    fail(pauses, scopeError);
    const verdict = failed(pauses, admitted(pauses, 5000), answer, 'z', 0, 5000);
    return { lifted: verdict.lifted, limit: pauses.limit, again: pauses.admit(5000, 'proven') !== undefined };
  };

  it('lifts either pause, and the ramp begins', () => {
    expect(probeWith(badSecret, badKey)).toEqual({ lifted: ['client'], limit: 1, again: true });
    expect(probeWith(refused, badKey)).toEqual({ lifted: ['endpoint'], limit: 1, again: true });
  });

  it('lifts the endpoint’s alone when it has no code: that it is there is all it tells', () => {
    expect(probeWith(refused, plain4xx)).toEqual({ lifted: ['endpoint'], limit: 1, again: true });
    expect(probeWith(badSecret, plain4xx)).toEqual({ lifted: [], limit: 16, again: false });
  });

  it('lifts nothing when it is no answer of the service: the next caller is the probe', () => {
    expect(probeWith(refused, error('source_failed'))).toEqual({ lifted: [], limit: 16, again: true });
    const opposed = error('owner_refused', { failureScope: 'client' });
    expect(probeWith(refused, opposed)).toEqual({ lifted: [], limit: 16, again: false });
  });
});

describe('a probe for an owner that is known to fail', () => {
  const probedByFailing = () => {
    const pauses = make();
    const { circuitPause } = fail(pauses, refused);
    const probe = admitted(pauses, 1000, 'failing');
    return { pauses, circuitPause, probe };
  };

  it('is taken over by another owner’s once it has had a first pause’s time, and by none of its kind', () => {
    const { pauses, circuitPause, probe } = probedByFailing();
    expect(pauses.pauseFor(1499, 'proven')).toBe(circuitPause);
    expect(pauses.pauseFor(9999, 'failing')).toBe(circuitPause);
    const second = admitted(pauses, 1500, 'proven');
    expect(pauses.pauseFor(99_999, 'proven')).toBe(circuitPause);
    // What the first is answered says nothing any more: it neither lifts the pause nor closes the gate anew.
    expect(pauses.succeeded(probe)).toEqual([]);
    expect(pauses.pauseFor(99_999, 'proven')).toBe(circuitPause);
    expect(pauses.succeeded(second)).toEqual(['endpoint']);
  });

  it('that fails in a way that may be its own doing holds back only its kind, longer each time', () => {
    const { pauses, circuitPause, probe } = probedByFailing();
    const verdict = failed(pauses, probe, timedOut, 'a', 1, 11_000, 1_000);
    expect(verdict).toMatchObject({ scope: 'endpoint', circuitPause: { count: 2, retryAtMonotonicMs: 11_750 } });
    expect(verdict.ownerPause).toMatchObject({ count: 1, retryAtMonotonicMs: 12_500 });
    expect(pauses.pauseFor(11_000, 'proven')).toBeUndefined();
    expect(pauses.pauseFor(11_749, 'failing')).toBe(verdict.circuitPause);
    expect(pauses.state('endpoint')?.pause).toBe(circuitPause);
    const again = failed(pauses, admitted(pauses, 11_750, 'failing'), timedOut, 'a', 1, 21_750, 11_750);
    expect(again.circuitPause).toMatchObject({ count: 3, retryAtMonotonicMs: 23_250 });
  });

  it('closes the gate for all when the failure is the endpoint’s for certain, or the service says until when', () => {
    for (const answer of [refused, error('endpoint_unavailable', { retryAfterMs: 4_000 })]) {
      const { pauses, probe } = probedByFailing();
      const { circuitPause } = failed(pauses, probe, answer, 'a', 1, 2000);
      expect(circuitPause?.count).toBe(2);
      expect(pauses.pauseFor(2000, 'proven')).toBe(circuitPause);
    }
  });

  it('that fails so at once holds others back for once more as long, without growth', () => {
    const { pauses, probe } = probedByFailing();
    const { circuitPause } = failed(pauses, probe, timedOut, 'a', 1, 2_000);
    expect(circuitPause).toMatchObject({ count: 2, retryAtMonotonicMs: 2_750 });
    expect(pauses.pauseFor(2_374, 'proven')).toMatchObject({ count: 1, retryAtMonotonicMs: 2_375 });
    expect(pauses.pauseFor(2_375, 'proven')).toBeUndefined();
    expect(pauses.pauseFor(2_749, 'failing')).toBe(circuitPause);
  });

  it('is held back by what the service asks of all, though its own kind’s pause ended sooner', () => {
    const pauses = make();
    const early = admitted(pauses, 0);
    fail(pauses, refused);
    failed(pauses, admitted(pauses, 1000, 'failing'), timedOut, 'a', 1, 1000);
    const asked = error('rate_limited', { retryAfterMs: 9_000 });
    const { circuitPause } = failed(pauses, early, asked, 'b', 0, 1100);
    expect(circuitPause?.retryAtMonotonicMs).toBe(10_100);
    expect(pauses.pauseFor(10_099, 'failing')).toBe(circuitPause);
    expect(pauses.pauseFor(10_100, 'failing')).toBeUndefined();
  });

  it('does not concern others’ probes: those pause all anew, for twice as long', () => {
    const pauses = make();
    fail(pauses, refused);
    const { circuitPause } = fail(pauses, timedOut, 1000, 'z');
    expect(circuitPause).toMatchObject({ count: 2, retryAtMonotonicMs: 1750 });
    expect(pauses.pauseFor(1749, 'proven')).toBe(circuitPause);
    expect(pauses.pauseFor(1750, 'proven')).toBeUndefined();
  });

  it('never lets others come later than owners known to fail, though both are drawn at the cap', () => {
    const draws = [0.5, 0, 1];
    const capped = { baseMs: 500, capMs: 500 };
    const random = () => draws.shift() ?? 0.5;
    const pauses = new FailureScopes({ ranges: { ...RANGES, endpoint: capped }, concurrency: 16, random });
    fail(pauses, refused);
    const { circuitPause } = failed(pauses, admitted(pauses, 1000, 'failing'), timedOut, 'a', 1, 1000);
    expect(circuitPause?.retryAtMonotonicMs).toBe(1250);
    expect(pauses.pauseFor(1249, 'proven')).toBeDefined();
    expect(pauses.pauseFor(1250, 'proven')).toBeUndefined();
  });

  it('holds nobody back any more once the gate opens', () => {
    const { pauses, probe } = probedByFailing();
    failed(pauses, probe, timedOut, 'a', 1, 2000, 1000);
    pauses.succeeded(admitted(pauses, 2000, 'proven'));
    expect(pauses.pauseFor(2000, 'failing')).toBeUndefined();
  });
});

describe('resume', () => {
  it('lifts both pauses at once, without a ramp, and tells which there were', () => {
    const pauses = make();
    expect(pauses.resume()).toEqual([]);
    fail(pauses, refused);
    expect(pauses.resume()).toEqual(['endpoint']);
    expect(pauses.pauseFor(0, 'proven')).toBeUndefined();
    expect(pauses.limit).toBe(16);
    expect(fail(pauses, refused).circuitPause?.count).toBe(1);
  });

  it('forgets who was suspected', () => {
    const pauses = make();
    fail(pauses, timedOut, 0, 'a');
    fail(pauses, timedOut, 0, 'b');
    pauses.resume();
    expect(fail(pauses, timedOut, 0, 'c').scope).toBe('owner');
  });
});
