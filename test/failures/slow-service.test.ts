import { describe, expect, it } from 'vitest';
import { initialSlowService, noteLatency, recentLatencyMs, usualLatencyMs } from '../../src/failures/slow-service.ts';

const SEC = 1_000;

/** A service that issues a token every so often. */
class Story {
  readonly service = initialSlowService();
  nowMs = 0;

  issues(tookMs: number, seconds: number, everyMs = 500): this {
    for (const endMs = this.nowMs + seconds * SEC; this.nowMs < endMs; ) {
      this.nowMs += everyMs;
      noteLatency(this.service, tookMs, this.nowMs);
    }
    return this;
  }
}

/** After ten minutes of tokens that took 200 ms. */
const usual = () => new Story().issues(200, 600);

describe('a service is called slow', () => {
  it('20 seconds after its tokens began to take over four times as long as usual, and over a second', () => {
    const story = usual().issues(2_000, 22);
    expect(story.service.sinceMs).toBeUndefined();
    story.issues(2_000, 8);
    const { sinceMs = 0 } = story.service;
    expect((sinceMs - 600 * SEC) / SEC).toBeGreaterThan(0);
    expect((sinceMs - 600 * SEC) / SEC).toBeLessThan(10);
    expect(recentLatencyMs(story.service)).toBeGreaterThan(1_800);
    expect(usualLatencyMs(story.service)).toBeLessThan(220);
  });

  it.each([
    ['up to a second', 200, 1_000],
    ['up to four times as long', 600, 2_390],
  ])('not if they take %s', (_, usualMs, tookMs) => {
    expect(new Story().issues(usualMs, 600).issues(tookMs, 600).service.sinceMs).toBeUndefined();
  });

  it('not for a burst that is over within 20 seconds, nor for one late token now and then', () => {
    const story = usual().issues(6_000, 10).issues(200, 60);
    for (let minutes = 0; minutes < 20; minutes++) story.issues(9_000, 1, SEC).issues(200, 60);
    expect(story.service.sinceMs).toBeUndefined();
  });

  it('not for a single late token where tokens are rare', () => {
    const rare = (story: Story, tookMs: number, tokens: number) => story.issues(tookMs, tokens * 60, 60 * SEC);
    const story = rare(rare(rare(new Story(), 200, 20), 9_000, 1), 200, 5);
    expect(story.service.sinceMs).toBeUndefined();
    expect(rare(story, 9_000, 2).service.sinceMs).toBe(story.nowMs - 60 * SEC);
  });

  it('before ten tokens, if they take over five seconds', () => {
    expect(new Story().issues(5_000, 60, 10 * SEC).service.sinceMs).toBeUndefined();
    const story = new Story().issues(5_001, 60, 10 * SEC);
    expect([story.service.sinceMs, usualLatencyMs(story.service)]).toEqual([10 * SEC, undefined]);
  });
});

it('stays slow until its tokens have taken no longer than usual for 20 seconds', () => {
  const story = usual().issues(2_000, 60).issues(200, 20);
  expect(story.service.sinceMs).toBeDefined();
  expect(story.issues(2_000, 60).issues(200, 40).service.sinceMs).toBeUndefined();
});

it('does not become usual: after an hour it is still slow, by the latency from before', () => {
  const story = usual().issues(2_000, 3_600);
  expect(story.service.sinceMs).toBeLessThan(610 * SEC);
  expect(usualLatencyMs(story.service)).toBeLessThan(220);
});

it('the usual latency follows a service that gets slower little by little, within hours', () => {
  const story = new Story();
  for (let tookMs = 300; tookMs <= 2_400; tookMs += 300) story.issues(tookMs, 3_600, 5 * SEC);
  expect(story.service.sinceMs).toBeUndefined();
  expect(usualLatencyMs(story.service)).toBeGreaterThan(1_500);
});

it('a few late tokens do not raise the usual latency, even of a service that is hardly known', () => {
  const story = new Story().issues(500, 10, SEC);
  expect(usualLatencyMs(story.issues(5_000, 15, 5 * SEC).service)).toBe(500);
  expect(story.issues(5_000, 30, 5 * SEC).service.sinceMs).toBe(20 * SEC);
});
