/** One gate by itself. How two of them stop and let pass what owners ask for is in `pauses.test.ts`. */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorCode, type OwnerTokenErrorOptions } from '../../src/errors.ts';
import { CircuitBreaker, type Permit } from '../../src/failures/circuit-breaker.ts';

const RANGE = { baseMs: 500, capMs: 30_000 };

const error = (code: OwnerTokenErrorCode, options: OwnerTokenErrorOptions = {}) =>
  new OwnerTokenError(code, 'it failed', options);
const refused = error('endpoint_unavailable', { failureScope: 'endpoint' });
const timedOut = error('endpoint_unavailable');

/** A gate whose jitter is at its middle, and what gives passes to it. */
class Stage {
  readonly gate: CircuitBreaker;
  passesGiven = 0;

  constructor(concurrency = 16) {
    this.gate = new CircuitBreaker('endpoint', RANGE, concurrency);
  }

  /** A pass that the gate knows of. */
  admit(nowMs = 0, failing = false): Permit {
    expect(this.gate.pauseFor(nowMs, failing)).toBeUndefined();
    const pass = { number: ++this.passesGiven, standing: failing ? ('failing' as const) : ('proven' as const) };
    this.gate.admit(pass, nowMs);
    return pass;
  }

  close(pass: Permit, failure = refused, nowMs = 0, isEscalated = false) {
    this.gate.over(pass);
    const { passesGiven } = this;
    return this.gate.close(pass, failure, { nowMs, passesGiven, random: () => 0.5, isEscalated, hung: true });
  }
}

describe('a gate that is open', () => {
  it('lets everything pass, up to the full concurrency', () => {
    const { gate } = new Stage(6);
    expect([gate.scope, gate.state, gate.limit]).toEqual(['endpoint', undefined, 6]);
    expect([gate.pauseFor(0, false), gate.pauseFor(0, true)]).toEqual([undefined, undefined]);
  });

  it('has no probe, and nothing to lift', () => {
    const stage = new Stage();
    const pass = stage.admit();
    expect(stage.gate.over(pass)).toBe(false);
    expect(stage.gate.succeeded(pass)).toBe(false);
    expect([stage.gate.lift(), stage.gate.limit]).toEqual([false, 16]);
  });

  it('claims what the third distinct owner suffers, and no more once one has succeeded', () => {
    const stage = new Stage();
    const claims = (owner: string, failures = 0) => stage.gate.claims(stage.admit(), owner, failures);
    expect([claims('a'), claims('b'), claims('b'), claims('c', 1)]).toEqual([false, false, false, false]);
    expect(claims('d')).toBe(true);
    stage.gate.succeeded(stage.admit());
    expect([claims('a'), claims('b')]).toEqual([false, false]);
  });
});

describe('a gate that closes', () => {
  it('says in its error that it is this gate’s, whoever’s it was', () => {
    const stage = new Stage();
    const pause = stage.close(stage.admit(), timedOut, 0, true);
    expect(pause.error).toMatchObject({ code: 'endpoint_unavailable', failureScope: 'endpoint' });
    expect(stage.gate.state).toEqual({ pause, probing: false });
    expect(stage.gate.claims(stage.admit(375), 'a', 9)).toBe(true);
  });

  it('lets one pass when its moment has come, and knows it', () => {
    const stage = new Stage();
    const pause = stage.close(stage.admit());
    expect(stage.gate.pauseFor(374, false)).toBe(pause);
    const probe = stage.admit(375);
    expect(stage.gate.state).toEqual({ pause, probing: true });
    expect(stage.gate.pauseFor(1e9, false)).toBe(pause);
    expect([
      stage.gate.over({ number: 1, standing: 'proven' }),
      stage.gate.over(probe),
      stage.gate.over(probe),
    ]).toEqual([...[false, true, false]]);
  });

  it('ramps from one to the full concurrency, and is open then', () => {
    const stage = new Stage(6);
    stage.close(stage.admit());
    expect(stage.gate.limit).toBe(6);
    expect(stage.gate.succeeded(stage.admit(1000))).toBe(true);
    const limits = [stage.gate.limit];
    for (let n = 0; n < 4; n++) {
      expect(stage.gate.succeeded(stage.admit(1000))).toBe(false);
      limits.push(stage.gate.limit);
    }
    expect(limits).toEqual([1, 2, 4, 6, 6]);
  });

  it('forgets a ramp when it closes anew, and does not count its pauses on from the last', () => {
    const stage = new Stage();
    stage.close(stage.admit());
    stage.gate.succeeded(stage.admit(1000));
    const pause = stage.close(stage.admit(1000), refused, 1000);
    expect([pause.count, stage.gate.limit]).toEqual([1, 16]);
  });
});
