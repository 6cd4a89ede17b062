/** The scores by themselves: what one report takes from which candidate. */

import { expect, it } from 'vitest';
import { areScores, Candidates, nextEdgeMs } from '../../src/expiry/lifetime-candidates.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** The bin of an age, as the scale is documented: eight an octave, from one second. */
const bin = (ms: number) => Math.floor(Math.log2(ms / 1000) * 8);
const scoreAt = (candidates: Candidates, ms: number) => candidates.scores[bin(ms)];

/** Nothing is preferred. */
const level = () => new Candidates(1000);

it('candidate lifetimes start open above the guess, and less likely the further below it', () => {
  const candidates = new Candidates(5 * MINUTE_MS);
  expect(scoreAt(candidates, 5 * MINUTE_MS)).toBe(0);
  expect(scoreAt(candidates, HOUR_MS)).toBe(0);
  expect(scoreAt(candidates, 2.5 * MINUTE_MS)).toBe(-7);
  expect(scoreAt(candidates, 1.25 * MINUTE_MS)).toBe(-9);
  expect(candidates.scores[bin(5 * MINUTE_MS) - 1]).toBe(-5.25);
  expect(scoreAt(candidates, 1000)).toBe(-12);
  expect(candidates.lowestMs).toBeLessThanOrEqual(5 * MINUTE_MS);
  expect(candidates.lowestMs).toBeGreaterThan(5 * MINUTE_MS * 0.91);
  expect(candidates.highestMs).toBe(1000 * 2 ** (227 / 8));
});

it('candidate lifetimes lose 4.5 when a token is accepted beyond them, once per token', () => {
  const candidates = level();
  candidates.outlived(10 * MINUTE_MS, 20 * MINUTE_MS, 0);
  expect(scoreAt(candidates, 9 * MINUTE_MS)).toBe(0);
  expect(scoreAt(candidates, 10 * MINUTE_MS)).toBe(-4.5);
  expect(scoreAt(candidates, 15 * MINUTE_MS)).toBe(-4.5);
  expect(scoreAt(candidates, 20 * MINUTE_MS)).toBe(0);
});

it('candidate lifetimes lose once more, by a share, while a token that outlived them before is accepted', () => {
  const candidates = level();
  candidates.outlived(10 * MINUTE_MS, 20 * MINUTE_MS, 0.5);
  expect(scoreAt(candidates, 9 * MINUTE_MS)).toBe(-2.25);
  expect(scoreAt(candidates, 15 * MINUTE_MS)).toBe(-4.5);
  expect(scoreAt(candidates, 20 * MINUTE_MS)).toBe(0);
});

it('candidate lifetimes lose 1.6 when a token ends in a bracket elsewhere, on either side', () => {
  const candidates = level();
  candidates.ended(10 * MINUTE_MS, 20 * MINUTE_MS, 1);
  expect(scoreAt(candidates, 9 * MINUTE_MS)).toBe(-1.6);
  expect(scoreAt(candidates, 10 * MINUTE_MS)).toBe(0);
  expect(scoreAt(candidates, 20 * MINUTE_MS)).toBe(0);
  expect(scoreAt(candidates, 22 * MINUTE_MS)).toBe(-1.6);
  expect(candidates.scores.at(-1)).toBe(-1.6);
});

it('candidate lifetimes lose in proportion to the weight of the report', () => {
  const candidates = level();
  candidates.ended(0, 20 * MINUTE_MS, 0.25);
  expect(scoreAt(candidates, HOUR_MS)).toBeCloseTo(-0.4, 10);
  expect(scoreAt(candidates, 1000)).toBe(0);
});

it('candidate lifetimes are scored relative to the best, and never below the floor', () => {
  const candidates = level();
  for (let index = 0; index < 10; index++) candidates.ended(10 * MINUTE_MS, 11 * MINUTE_MS, 1);
  expect(scoreAt(candidates, 10.5 * MINUTE_MS)).toBe(0);
  expect(scoreAt(candidates, HOUR_MS)).toBe(-12);
  candidates.outlived(0, 30 * MINUTE_MS, 1);
  expect(scoreAt(candidates, 10.5 * MINUTE_MS)).toBe(0);
  expect(scoreAt(candidates, HOUR_MS)).toBe(-7.5);
  expect(scoreAt(candidates, 5 * MINUTE_MS)).toBe(-12);
});

it('candidate lifetimes are possible within 5 of the best', () => {
  const candidates = level();
  candidates.outlived(0, HOUR_MS, 1);
  expect(candidates.lowestMs).toBe(1000);
  candidates.outlived(0, HOUR_MS, 1);
  expect(candidates.lowestMs).toBeGreaterThan(HOUR_MS * 0.91);
  expect(candidates.lowestMs).toBeLessThanOrEqual(HOUR_MS);
  for (let index = 0; index < 4; index++) candidates.ended(HOUR_MS, 1.1 * HOUR_MS, 1);
  expect(candidates.highestMs).toBeGreaterThan(1.1 * HOUR_MS);
  expect(candidates.highestMs).toBeLessThan(1.1 * 1.1 * HOUR_MS);
});

it('candidate lifetimes are not possible at 5 below the best', () => {
  const scores = Array(227).fill(-5).with(8, 0).with(15, -4.9);
  expect(new Candidates(1000, scores)).toMatchObject({ lowestMs: 2_000, highestMs: 4_000 });
});

it('candidate lifetimes give the share of the likelihood near a given one', () => {
  const candidates = level();
  expect(candidates.likelihoodNear(HOUR_MS)).toBeCloseTo(3 / 227, 10);
  expect(candidates.likelihoodNear(1000)).toBeCloseTo(2 / 227, 10);
  for (let index = 0; index < 10; index++) candidates.ended(HOUR_MS, HOUR_MS, 1);
  expect(candidates.likelihoodNear(HOUR_MS)).toBeGreaterThan(0.99);
  expect(candidates.likelihoodNear(2 * HOUR_MS)).toBeLessThan(0.01);
});

it('candidate lifetimes count ages off the scale as its ends', () => {
  const candidates = level();
  candidates.outlived(0, Number.POSITIVE_INFINITY, 1);
  candidates.outlived(0, Number.POSITIVE_INFINITY, 1);
  expect(candidates.lowestMs).toBe(1000 * 2 ** (226 / 8));
  candidates.ended(0, 1, 1);
  expect(candidates.scores).toHaveLength(227);
});

it('candidate lifetimes are restored from their scores', () => {
  const candidates = level();
  candidates.ended(HOUR_MS, HOUR_MS, 1);
  const restored = new Candidates(MINUTE_MS, [...candidates.scores]);
  expect(restored.scores).toEqual(candidates.scores);
});

it('nextEdgeMs is where the next bin begins', () => {
  expect(nextEdgeMs(0)).toBe(1000 * 2 ** (1 / 8));
  expect(nextEdgeMs(1500)).toBe(1000 * 2 ** (5 / 8));
  for (const ms of [1000, HOUR_MS, 30 * HOUR_MS]) expect(nextEdgeMs(ms)).toBeGreaterThan(ms);
});

it('areScores takes as many numbers as there are bins, from the floor to 0', () => {
  const good = [...level().scores];
  expect(areScores(good)).toBe(true);
  expect(areScores(good.map(() => -12))).toBe(true);
  expect(areScores(good.slice(1))).toBe(false);
  expect(areScores(good.with(3, 0.1))).toBe(false);
  expect(areScores(good.with(3, -12.1))).toBe(false);
  expect(areScores((good as unknown[]).with(3, '0'))).toBe(false);
  expect(areScores(new Float64Array(227))).toBe(false);
});
