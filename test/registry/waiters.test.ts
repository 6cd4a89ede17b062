import { getEventListeners } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import { Flight, type Waiter } from '../../src/registry/flight.ts';
import { Waiters } from '../../src/registry/waiters.ts';
import { tokenOf } from '../helpers/numbered-tokens.ts';
import { createSlot } from '../helpers/slots.ts';

const token = tokenOf('t1');
const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length;
const flightOf = (accessKey: string) => new Flight(accessKey, createSlot(`owner_${accessKey}`), 'new', 0);

/** Waiters, with the flights that callers have left. */
function stage() {
  const left: Flight[] = [];
  const waiters: Waiters = new Waiters((leaving) => {
    for (const [waiter, flight] of leaving) if (waiters.leave(waiter, flight)) left.push(flight);
  });
  const settle = (flight: Flight, error?: Error) => {
    if (error) flight.reject(error);
    else flight.resolve(token);
    waiters.settled(flight);
  };
  return { waiters, left, settle };
}

describe('callers of one request', () => {
  it('share its token, with a signal or without; those without get the very same promise', async () => {
    const { waiters, settle } = stage();
    const flight = flightOf('a');
    const { signal } = new AbortController();
    const waiting = [waiters.wait(flight, undefined), waiters.wait(flight, signal), waiters.wait(flight, undefined)];
    expect(waiting[0]).toBe(waiting[2]);
    expect([flight.waiting, waiters.count]).toEqual([3, 3]);
    settle(flight);
    expect([flight.waiting, waiters.count]).toEqual([0, 0]);
    for (const each of waiting) expect(await each).toBe(token);
    expect(listeners(signal)).toBe(0);
  });

  it('share its failure', async () => {
    const { waiters, settle } = stage();
    const flight = flightOf('a');
    const { signal } = new AbortController();
    const error = new Error('no');
    const waiting = [waiters.wait(flight, signal), waiters.wait(flight, undefined)];
    settle(flight, error);
    for (const each of waiting) await expect(each).rejects.toBe(error);
    expect(listeners(signal)).toBe(0);
  });

  it('may be none: its failure is no unhandled rejection', async () => {
    const unhandled = vi.fn();
    process.on('unhandledRejection', unhandled);
    flightOf('a').reject(new Error('no'));
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });
});

describe('a caller whose signal aborts', () => {
  it('leaves at once, with the signal’s reason, and alone', async () => {
    const { waiters, left, settle } = stage();
    const flight = flightOf('a');
    const leaving = new AbortController();
    const reason = { why: 'enough' };
    const [gone, stayed] = [waiters.wait(flight, leaving.signal), waiters.wait(flight, new AbortController().signal)];
    leaving.abort(reason);
    await expect(gone).rejects.toBe(reason);
    expect([flight.waiting, left]).toEqual([1, [flight]]);
    settle(flight);
    expect(await stayed).toBe(token);
  });

  it('is no longer referred to by the request', async () => {
    const { waiters } = stage();
    const flight = flightOf('a');
    const leaving = new AbortController();
    const gone = waiters.wait(flight, leaving.signal);
    leaving.abort('enough');
    await expect(gone).rejects.toBe('enough');
    expect(flight.waiters?.size).toBe(0);
  });

  it('gets the signal’s reason, not the token, when the request settles before it could leave', async () => {
    const leaving: [Waiter, Flight][] = [];
    const waiters = new Waiters((each) => leaving.push(...each));
    const flight = flightOf('a');
    const controller = new AbortController();
    const [gone, stayed] = [waiters.wait(flight, controller.signal), waiters.wait(flight, undefined)];
    controller.abort('enough');
    flight.resolve(token);
    waiters.settled(flight);
    await expect(gone).rejects.toBe('enough');
    expect(await stayed).toBe(token);
    expect(leaving.map(([waiter, left]) => waiters.leave(waiter, left))).toEqual([false]);
    expect(waiters.count).toBe(0);
  });

  it('leaves nothing once the request has settled', async () => {
    const { waiters, left, settle } = stage();
    const flight = flightOf('a');
    const late = new AbortController();
    const waiting = waiters.wait(flight, late.signal);
    settle(flight);
    await waiting;
    late.abort();
    expect(left).toEqual([]);
  });

  it('may have a signal that only looks like one', async () => {
    // As some libraries bring their own: no EventTarget of Node's.
    let abort = () => {};
    const lookalike = {
      reason: 'enough',
      addEventListener: (_type: string, listener: () => void) => {
        abort = listener;
      },
      removeEventListener: () => {},
    };
    const { waiters } = stage();
    const waiting = waiters.wait(flightOf('a'), lookalike as unknown as AbortSignal);
    abort();
    await expect(waiting).rejects.toBe('enough');
  });
});

describe('one signal over many calls', () => {
  it('gets one listener, until the last of their requests has settled', async () => {
    const warned = vi.fn();
    process.on('warning', warned);
    const { waiters, settle } = stage();
    const { signal } = new AbortController();
    const flights = Array.from({ length: 100 }, (_, n) => flightOf(`key-${n}`));
    const waiting = flights.map((flight) => waiters.wait(flight, signal));
    for (const flight of flights) {
      expect(listeners(signal)).toBe(1);
      settle(flight);
    }
    expect(listeners(signal)).toBe(0);
    expect(await Promise.all(waiting)).toEqual(flights.map(() => token));
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', warned);
    expect(warned).not.toHaveBeenCalled();
  });

  it('detaches all of them when it aborts', async () => {
    const { waiters, left } = stage();
    const leaving = new AbortController();
    const flights = ['a', 'b'].map(flightOf);
    const waiting = flights.flatMap((flight) => [
      waiters.wait(flight, leaving.signal),
      waiters.wait(flight, leaving.signal),
    ]);
    leaving.abort();
    expect(waiters.count).toBe(0);
    expect((await Promise.allSettled(waiting)).map(({ status }) => status)).toEqual(waiting.map(() => 'rejected'));
    expect(flights.map((flight) => flight.waiting)).toEqual([0, 0]);
    expect(new Set(left)).toEqual(new Set(flights));
  });
});
