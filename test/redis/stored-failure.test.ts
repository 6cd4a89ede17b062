import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors.ts';
import { Sealer } from '../../src/redis/sealing.ts';
import { StoredFailures } from '../../src/redis/stored-failure.ts';

const NOW_US = 1_900_000_000_000_000;
let unreadable = 0;
const failures = (key = 1) =>
  new StoredFailures(
    new Sealer([new Uint8Array(32).fill(key)]),
    () => 1,
    () => unreadable++,
  );
const context = { name: 'record', scope: undefined, generation: 7, answeredAtUs: NOW_US, before: '' } as const;
const refused = new OwnerTokenError('owner_refused', 'no', { status: 400, oauthError: 'invalid_grant' });

describe('a stored failure', () => {
  it('gives others its code, scope and status, and lasts until its end', () => {
    const sealed = failures().seal(refused, context);
    expect(sealed?.endsAtUs).toBe(NOW_US + 1_000_000);
    const error = failures().read('record', sealed?.sealed ?? '', NOW_US + 400_000, 0) as OwnerTokenError;
    expect(error).toMatchObject({
      code: 'owner_refused',
      failureScope: 'owner',
      status: 400,
      oauthError: 'invalid_grant',
    });
    expect(OwnerTokenError.pauseMsOf(error)).toBe(600);
    expect(failures().read('record', sealed?.sealed ?? '', NOW_US + 1_000_000, 0)).toBeUndefined();
  });

  it('backs off by what it follows, and counts from the answer', () => {
    let [before, ends] = ['', [] as number[]];
    for (let count = 0; count < 8; count++) {
      const sealed = failures().seal(refused, { ...context, before });
      before = sealed?.sealed ?? '';
      ends.push(((sealed?.endsAtUs ?? 0) - NOW_US) / 1_000_000);
    }
    expect(ends).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  });

  it('ends when the service said, counted from its answer however late it is stored', () => {
    const limited = new OwnerTokenError('rate_limited', 'slow down', { retryAfterMs: 30_000 });
    const sealed = failures().seal(limited, { ...context, scope: 'endpoint' });
    const error = failures().read('record', sealed?.sealed ?? '', NOW_US + 8_000_000, 0) as OwnerTokenError;
    expect(OwnerTokenError.pauseMsOf(error)).toBe(22_000);
  });

  it('holds a follower back for a minute at most before it reads the record again', () => {
    const limited = new OwnerTokenError('rate_limited', 'slow down', { retryAfterMs: 3_600_000 });
    const sealed = failures().seal(limited, { ...context, scope: 'endpoint' });
    const error = failures().read('record', sealed?.sealed ?? '', NOW_US, 0) as OwnerTokenError;
    expect(OwnerTokenError.pauseMsOf(error)).toBe(60_000);
  });

  it('is nothing when it is forged, moved, of another key, or older than what the caller knows', () => {
    const sealed = failures().seal(refused, context)?.sealed ?? '';
    const forged = JSON.stringify({ code: 'client_refused', scope: 'client', g: 7, e: NOW_US + 3_600_000_000, n: 1 });
    unreadable = 0;
    expect(failures().read('record', forged, NOW_US, 0)).toBeUndefined();
    expect(failures().read('another', sealed, NOW_US, 0)).toBeUndefined();
    expect(failures(2).read('record', sealed, NOW_US, 0)).toBeUndefined();
    expect(unreadable).toBe(3);
    expect(failures().read('record', sealed, NOW_US, 8)).toBeUndefined();
  });
});
