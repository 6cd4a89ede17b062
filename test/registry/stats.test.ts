import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors.ts';
import type { Pause } from '../../src/failures/pauses.ts';
import { failed, type Slot, type Surroundings, succeeded } from '../../src/registry/slot.ts';
import { ownerState, pauseInForce } from '../../src/registry/stats.ts';
import { AccessToken } from '../../src/token.ts';
import { at } from '../helpers/instants.ts';
import { settle } from '../helpers/manual-clock.ts';
import { scripted } from '../helpers/registries.ts';
import { createSlot } from '../helpers/slots.ts';

const ALONE: Surroundings = { requesting: false, circuit: undefined };

/** Due for a refresh at 600, past its end at 950. */
function slotWith(facts: { token?: boolean; failure?: Pause }): Slot {
  const slot = createSlot('owner_x');
  const [issuedAtMs, refreshAtMs, expiresAtMs] = [1_000_000, 1_000_600, 1_000_950];
  const token = new AccessToken({
    ...{ value: 'v', tokenType: 'Bearer', fingerprint: 'token_v', issuedAtMs, refreshAtMs, expiresAtMs },
  });
  if (facts.token) succeeded(slot, { token, aheadMs: 0 });
  if (facts.failure) failed(slot, facts.failure);
  return slot;
}

const pauseUntil = (retryAtMonotonicMs: number, code: 'owner_refused' | 'rate_limited' = 'owner_refused'): Pause => ({
  error: new OwnerTokenError(code, 'no', { failedAtMs: 5 }),
  count: 2,
  retryAtMonotonicMs,
});

describe('an owner’s state', () => {
  it('is its phase alone where nothing is held', () => {
    expect(ownerState(slotWith({}), at(0), ALONE)).toEqual({ phase: 'empty' });
  });

  it('tells the end of a token that is usable, and of no other', () => {
    const slot = slotWith({ token: true });
    expect(ownerState(slot, at(949), ALONE)).toEqual({ phase: 'refresh-due', expiresAtMs: 1_000_950 });
    expect(ownerState(slot, at(950), ALONE)).toEqual({ phase: 'expired' });
    expect(ownerState(slot, at(950), { ...ALONE, requesting: true })).toEqual({ phase: 'requesting' });
  });

  it('tells the pause that ends last, its own or that of all', () => {
    const slot = slotWith({ failure: pauseUntil(700) });
    const pausedUntil = (ms: number) => ({ ...ALONE, circuit: pauseUntil(ms, 'rate_limited') });
    const own = { phase: 'backing-off', code: 'owner_refused', retryAtMs: 1_000_700 };
    expect(ownerState(slot, at(0), ALONE)).toEqual(own);
    expect(ownerState(slot, at(0), pausedUntil(699))).toEqual(own);
    expect(ownerState(slot, at(0), pausedUntil(701))).toEqual({
      ...{ phase: 'backing-off', code: 'rate_limited', retryAtMs: 1_000_701 },
    });
  });
});

describe('the pause in force', () => {
  it('is the one that ends last, the circuit’s of two that end together, and either where there is only one', () => {
    const [early, late, alike] = [pauseUntil(1), pauseUntil(2), pauseUntil(2)];
    const inForce = (own: Pause | undefined, circuit: Pause | undefined) =>
      pauseInForce(slotWith({ ...(own && { failure: own }) }), at(0), { ...ALONE, circuit });
    expect(inForce(early, late)).toBe(late);
    expect(inForce(late, early)).toBe(late);
    expect(inForce(late, alike)).toBe(alike);
    expect(inForce(early, undefined)).toBe(early);
    expect(inForce(undefined, early)).toBe(early);
    expect(inForce(undefined, undefined)).toBeUndefined();
  });

  it('is no backoff that has ended', () => {
    expect(pauseInForce(slotWith({ failure: pauseUntil(1) }), at(1), ALONE)).toBeUndefined();
  });
});

describe('the statistics', () => {
  it('show the one circuit that is open, by its scope, and whether its trial is in flight', async () => {
    const { clock, source, registry } = scripted();
    const given = { failureScope: 'client', retryAfterMs: 2_000 } as const;
    const error = new OwnerTokenError('client_refused', 'no', given);
    source.script((call) => call.fail(error));
    await registry.getToken('a').catch(() => {});
    const startMs = clock.now();
    const circuit = { code: 'client_refused', failedAtMs: startMs, retryAtMs: startMs + 2_000, failures: 1 };
    expect(registry.stats().pauses).toEqual({ owners: 1, client: { ...circuit, probing: false } });
    source.script(undefined);
    clock.advance(2_000);
    const call = registry.getToken('b');
    await settle();
    expect(registry.stats().pauses).toEqual({ owners: 1, client: { ...circuit, probing: true } });
    source.calls.at(-1)?.succeed();
    await call;
    expect(registry.stats().pauses).toEqual({ owners: 1 });
    await registry.close();
  });
});
