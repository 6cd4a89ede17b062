import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Feed } from '../../../src/sandbox/control/feed.ts';
import type { StateView } from '../../../src/sandbox/control/shapes.ts';

describe('the feed', () => {
  let feed: Feed;
  let sent: string[];
  let url: string;
  const state = () => ({ url, clock: {}, picture: { matching: 0, lanes: [] } }) as unknown as StateView;
  const read = (writableLength = 0) => {
    const closed: (() => void)[] = [];
    const on = (_: string, listener: () => void) => closed.push(listener);
    const req = { headers: {} };
    const reader = {
      req,
      writeHead() {},
      write: (text: string) => sent.push(text),
      on,
      destroy: vi.fn(),
      writableLength,
    };
    const isTaken = feed.attach(reader as unknown as ServerResponse, { key: '', state });
    return { ...reader, isTaken, close: () => closed.forEach((listener) => void listener()) };
  };
  const urls = () => sent.flatMap((text) => /"url":"(\w+)"/.exec(text)?.[1] ?? []);

  beforeEach(() => {
    vi.useFakeTimers();
    [feed, sent, url] = [new Feed(), [], 'first'];
  });
  afterEach(() => {
    feed.close();
    vi.useRealTimers();
  });

  it('sends a new reader the state at once, and then what has changed, at most four times a second', () => {
    read();
    expect([sent[0], urls()]).toEqual(['retry: 500\n\n', ['first']]);
    for (url of ['second', 'third']) feed.note();
    vi.advanceTimersByTime(249);
    expect(urls()).toEqual(['first']);
    vi.advanceTimersByTime(1);
    expect(urls()).toEqual(['first', 'third']);
  });

  it('reads the state once a second while nothing happens, because tokens end without an event', () => {
    read();
    url = 'second';
    vi.advanceTimersByTime(1_250);
    expect(urls()).toEqual(['first', 'second']);
    vi.advanceTimersByTime(10_000);
    expect(urls()).toHaveLength(2);
  });

  it('takes fifty readers, and another one when one has left', () => {
    const readers = Array.from({ length: 51 }, () => read());
    expect(readers.map(({ isTaken }) => isTaken).indexOf(false)).toBe(50);
    readers[0]?.close();
    expect(read().isTaken).toBe(true);
  });

  it('disconnects a reader that does not read, and all when it closes', () => {
    const [quick, slow] = [read(), read(10_000_001)];
    expect([slow.destroy.mock.calls.length, quick.destroy.mock.calls.length]).toEqual([1, 0]);
    feed.close();
    expect(quick.destroy).toHaveBeenCalledOnce();
  });
});
