import { describe, expect, it } from 'vitest';
import { type FailureScope, OwnerTokenError } from '../../src/errors.ts';
import { SharedCircuit } from '../../src/redis/shared-circuit.ts';
import { ManualClock } from '../helpers/manual-clock.ts';

function circuit(isSubscribed = true) {
  const clock = new ManualClock();
  const made = new SharedCircuit('circuit', clock, () => isSubscribed);
  return { clock, circuit: made };
}

describe("the fleet's circuit breaker", () => {
  it('is read by the first request, and not again while it is closed', () => {
    const { circuit: subject, clock } = circuit();
    expect(subject.mustRead).toBe(true);
    subject.foundClosed();
    clock.advance(86_400_000);
    expect(subject.mustRead).toBe(false);
  });

  it('without a subscription is read once a second', () => {
    const { circuit: subject, clock } = circuit(false);
    subject.foundClosed();
    clock.advance(999);
    expect(subject.mustRead).toBe(false);
    clock.advance(1);
    expect(subject.mustRead).toBe(true);
    subject.foundClosed();
    expect(subject.mustRead).toBe(false);
  });

  it('is read after a wake-up, until it is found closed', () => {
    const { circuit: subject } = circuit();
    subject.foundClosed();
    subject.suspect();
    expect([subject.mustRead, subject.mustRead]).toEqual([true, true]);
    subject.foundClosed();
    expect(subject.mustRead).toBe(false);
  });

  const cases: [string, OwnerTokenError, FailureScope, FailureScope | undefined, boolean][] = [
    // what failed, its error, the scope that it is attributed to, the scope in the record, whether the circuit is suspected
    ['a 503 of one owner', new OwnerTokenError('endpoint_unavailable', ''), 'owner', undefined, true],
    [
      'a 503 that the registry escalates',
      new OwnerTokenError('endpoint_unavailable', ''),
      'endpoint',
      'endpoint',
      true,
    ],
    ['a refused owner', coded('owner_refused', 'owner'), 'owner', undefined, false],
    ['a refused client', new OwnerTokenError('client_refused', ''), 'client', 'client', true],
    ['a 429', new OwnerTokenError('rate_limited', ''), 'endpoint', 'endpoint', true],
  ];
  it.each(cases)('%s', (_, error, attributed, recorded, suspected) => {
    const { circuit: subject } = circuit();
    subject.foundClosed();
    expect(subject.judge(error, attributed)).toBe(recorded);
    expect(subject.mustRead).toBe(suspected);
  });

  function coded(code: 'owner_refused', failureScope: FailureScope): OwnerTokenError {
    return new OwnerTokenError(code, '', { failureScope, oauthError: 'invalid_grant' });
  }
});
