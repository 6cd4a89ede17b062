import { getEventListeners } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import { Flight } from '../../src/registry/flight.ts';
import { tokenOf } from '../helpers/numbered-tokens.ts';

const token = tokenOf('t1');
const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length;

describe('a flight', () => {
  it('gives all who wait the same outcome, and callers without a signal the very promise', async () => {
    const flight = new Flight(() => {});
    const { signal } = new AbortController();
    const waiting = [flight.wait(undefined), flight.wait(signal), flight.wait(undefined)];
    expect(waiting[0]).toBe(flight.outcome);
    expect(flight.waiting).toBe(3);
    flight.resolve(token);
    for (const each of waiting) expect(await each).toBe(token);
    expect(listeners(signal)).toBe(0);
  });

  it('shares a failure in the same way', async () => {
    const flight = new Flight(() => {});
    const { signal } = new AbortController();
    const error = new Error('no');
    const waiting = [flight.wait(signal), flight.wait(undefined)];
    flight.reject(error);
    for (const each of waiting) await expect(each).rejects.toBe(error);
    expect(listeners(signal)).toBe(0);
  });

  it('that fails with nobody waiting is no unhandled rejection', async () => {
    const unhandled = vi.fn();
    process.on('unhandledRejection', unhandled);
    new Flight(() => {}).reject(new Error('no'));
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  it('loses a caller whose signal aborts at once, with its reason, and none besides', async () => {
    const abandoned = vi.fn();
    const flight = new Flight(abandoned);
    const leaving = new AbortController();
    const reason = { why: 'enough' };
    const [left, stayed] = [flight.wait(leaving.signal), flight.wait(new AbortController().signal)];
    leaving.abort(reason);
    await expect(left).rejects.toBe(reason);
    expect(flight.waiting).toBe(1);
    expect(abandoned).not.toHaveBeenCalled();
    flight.resolve(token);
    expect(await stayed).toBe(token);
  });

  it('says so when the last who waited has left', async () => {
    const abandoned = vi.fn();
    const flight = new Flight(abandoned);
    const leaving = new AbortController();
    const left = [flight.wait(leaving.signal), flight.wait(leaving.signal)];
    leaving.abort();
    expect((await Promise.allSettled(left)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(abandoned).toHaveBeenCalledTimes(1);
    expect(flight.waiting).toBe(0);
  });

  it('is not abandoned by a signal that aborts after its end', async () => {
    const abandoned = vi.fn();
    const flight = new Flight(abandoned);
    const late = new AbortController();
    const waiting = flight.wait(late.signal);
    flight.resolve(token);
    await waiting;
    late.abort();
    expect(abandoned).not.toHaveBeenCalled();
  });

  it('takes one signal a hundred times without a warning of leaking listeners', async () => {
    const warned = vi.fn();
    process.on('warning', warned);
    const flight = new Flight(() => {});
    const { signal } = new AbortController();
    for (let n = 0; n < 100; n++) void flight.wait(signal);
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', warned);
    expect(warned).not.toHaveBeenCalled();
    flight.resolve(token);
  });

  it('takes a signal that only looks like one', async () => {
    // As some libraries bring their own: no EventTarget of Node's.
    let leave = () => {};
    const lookalike = {
      reason: 'enough',
      addEventListener: (_type: string, listener: () => void) => {
        leave = listener;
      },
      removeEventListener: () => {},
    };
    const flight = new Flight(() => {});
    const waiting = flight.wait(lookalike as unknown as AbortSignal);
    leave();
    await expect(waiting).rejects.toBe('enough');
  });
});
