import { describe, expect, it } from 'vitest';
import type { Second } from '../../../../src/page-engine/data.ts';
import { type HeadlineFacts, headlineOf } from '../../../../src/sandbox/portal/page/headline.ts';

const NOW_MS = 1_700_000_000_000;

/** Seconds by how long ago they began, in whole seconds before `NOW_MS`. */
const secondsOf = (counts: Readonly<Record<number, number[]>>): HeadlineFacts['seconds'] =>
  new Map(
    Object.entries(counts).map(([ago, own]) => {
      const second = NOW_MS / 1000 - Number(ago);
      return [second, [second, ...own]] as [number, Second];
    }),
  );

const steady = (count: number[], from = 0, to = 70) =>
  secondsOf(Object.fromEntries(Array.from({ length: to - from }, (_, n) => [from + n, count])));

const figures = { total: 0, tokenRequests: 900, wasted: 0, inFlight: 2, owners: 8, ownersAsked: 8, ownersCovered: 8 };

const headline = (
  facts: Partial<Omit<HeadlineFacts, 'figures'>> = {},
  changed: Partial<HeadlineFacts['figures']> = {},
) =>
  headlineOf({
    figures: { ...figures, ...changed },
    seconds: new Map(),
    faulty: false,
    frozen: false,
    windowMs: 60_000,
    nowMs: NOW_MS,
    ...facts,
  });

describe('the rate', () => {
  it.each([0, 1, 250, 499, 999])('of a steady 500 requests a second is 500.0, %d ms into a second', (ms) => {
    // The second that has just begun is not complete, and counts of the one before may be on their way.
    const seconds = new Map([...steady([500], 1), ...secondsOf({ 0: [ms / 2] })]);
    expect(headline({ seconds, nowMs: NOW_MS + ms }).rate.value).toBe('500.0');
  });

  it('is not shown while time is frozen', () => {
    expect(headline({ seconds: steady([500]), frozen: true }).rate).toMatchObject({ value: '–' });
  });
});

describe('an outage', () => {
  const uncovered = { ownersCovered: 0 };

  it('is an alarm in every figure where connections are refused and nothing arrives, whatever was before', () => {
    const told = headline({ seconds: steady([5], 23, 60), faulty: true }, uncovered);
    expect(told.covered).toMatchObject({
      value: '0',
      tone: 'alarm',
      hint: expect.stringContaining('8 asked and have'),
    });
    expect(told.success).toMatchObject({ value: '–', tone: 'alarm', hint: 'no request for 23 s' });
    expect(told.rate).toMatchObject({ value: '0.0', tone: 'alarm' });
  });

  it('is an alarm where requests arrive and fail', () => {
    const told = headline({ seconds: steady([0, 0, 0, 3], 0, 20) }, uncovered);
    expect([told.covered.tone, told.success]).toEqual([
      'alarm',
      { value: '0.0%', tone: 'alarm', hint: '60 failures, last 1 min' },
    ]);
  });

  it('of less than half of the owners is a warning', () => {
    expect(headline({ faulty: true }, { ownersCovered: 5 }).covered.tone).toBe('warning');
    expect(headline({ faulty: true }, { ownersCovered: 4 }).covered.tone).toBe('alarm');
  });

  it('is not claimed before the first request, nor once an integration has stopped and tokens expire', () => {
    expect(headline({ faulty: true }, { ownersAsked: 0, ownersCovered: 0 }).covered.tone).toBeUndefined();
    const stopped = headline({ seconds: steady([5], 600, 700) }, uncovered);
    expect([stopped.covered.tone, stopped.success.value, stopped.success.tone]).toEqual([undefined, '–', undefined]);
  });
});

it('success is amber below 99 %, red below 90 %, and 100 % only where nothing failed', () => {
  const success = (good: number, bad: number) => {
    const { value, tone } = headline({ seconds: secondsOf({ 5: [good, 0, 0, bad] }) }).success;
    return [value, tone];
  };
  expect(success(10, 0)).toEqual(['100%', undefined]);
  expect(success(99_999, 1)).toEqual(['99.9%', undefined]);
  expect(success(98, 2)).toEqual(['98.0%', 'warning']);
  expect(success(1, 1)).toEqual(['50.0%', 'alarm']);
});
