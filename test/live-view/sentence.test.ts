import { expect, it } from 'vitest';
import { causePhrase, lapsedWord, sentenceOf, sinceWord, utcWord } from '../../src/live-view/sentence.ts';
import type { Cause, Facts } from '../../src/live-view/status.ts';

const NOW = Date.UTC(2030, 0, 2, 11, 15);
const at = (minutes: number) => NOW + minutes * 60_000;

const cause = (changes: Partial<Cause> = {}): Cause => {
  const known = {
    code: 'endpoint_unavailable',
    status: 503,
    scope: 'owner',
    message: 'down',
    fault: '',
    todo: '',
  } as const;
  return { id: 'x', ...known, sinceMs: at(-1), owners: 4, unserved: 4, retryAtMs: at(1), probing: false, ...changes };
};

const rejected = cause({ code: 'token_rejected', owners: 60, unserved: 0 });

it.each<[string, Partial<Facts>]>([
  ['No owner has asked for a token yet.', { known: 0 }],
  ['The only owner is served.', { known: 1 }],
  ['All 3,000 owners are served.', {}],
  [
    'All 3,000 owners are served, with delays of up to 4 s: token requests are limited to 20 per second.',
    { longestQueuedMs: 3_200, pace: { perSecond: 20, reason: 'overload' } },
  ],
  [
    'All 3,000 owners are served, with delays of up to 1 s: token requests are limited to 0.5 per second (requestsPerSecond).',
    { longestQueuedMs: 1_000, pace: { perSecond: 0.5, reason: 'quota' } },
  ],
  [
    'All 3,000 owners are served. Tokens take 12 times as long as before since 11:14:00 UTC.',
    { slowService: { sinceMs: at(-1), latencyMs: 6_100, times: 12.3 } },
  ],
  [
    'All 3,000 owners are served. Tokens take 6.1 s since 11:14:00 UTC.',
    { slowService: { sinceMs: at(-1), latencyMs: 6_100 } },
  ],
  ['All 3,000 owners are served, with delays of up to 2 s: token requests are queued.', { longestQueuedMs: 2_000 }],
  [
    'All 3,000 owners are served. The API has rejected the tokens of 60 owners since 11:14:00 UTC.',
    { causes: [rejected] },
  ],
  [
    'All 3,000 owners are served. 4 of them cannot renew their tokens (503 since 11:14:00 UTC). If this continues, the first owner loses service at 11:20:00 UTC.',
    { causes: [cause({ unserved: 0 })], runway: { owners: 4, firstAtMs: at(5) } },
  ],
  [
    'All 3,000 owners are served. 1 of them cannot renew its token (503 since 11:14:00 UTC).',
    { causes: [cause({ unserved: 0, owners: 1 })] },
  ],
  [
    '259 owners cannot be served: 503 since 11:14:00 UTC; the others are served, with delays of up to 4 s: token requests are queued.',
    { unserved: 259, causes: [cause()], longestQueuedMs: 4_000 },
  ],
  [
    '259 owners cannot be served: 503 since 11:14:00 UTC; the others are served. If this continues, the next owner loses service at 11:20:00 UTC.',
    { unserved: 259, causes: [cause()], runway: { owners: 4, firstAtMs: at(5) } },
  ],
  [
    '2 owners cannot be served: 503 since 11:14:00 UTC; the other one is served.',
    { known: 3, unserved: 2, causes: [cause()] },
  ],
  ['The only owner cannot be served: 503 since 11:14:00 UTC.', { known: 1, unserved: 1, causes: [cause()] }],
  [
    'None of the 2 owners can be served: no answer since 11:14:00 UTC.',
    { known: 2, unserved: 2, causes: [(({ status: _, ...rest }) => rest)(cause())] },
  ],
  [
    '9 owners cannot be served: 4 × 503 since 11:14:00 UTC, 4 × refused (400) since 11:14:00 UTC, 4 × 429 since 11:14:00 UTC, 2 other causes; the others are served.',
    {
      unserved: 9,
      causes: [
        cause(),
        cause({ code: 'owner_refused', status: 400 }),
        cause({ code: 'rate_limited', status: 429 }),
        cause({ status: 500 }),
        cause({ status: 502 }),
      ],
    },
  ],
  [
    'The endpoint has failed since 11:14:00 UTC (503). All 3,000 known owners are served from cached tokens. An attempt is in flight. If this continues, the first owner loses service at 11:20:00 UTC, half of all by 11:25:00 UTC.',
    {
      causes: [cause({ scope: 'endpoint', unserved: 0, probing: true })],
      runway: { owners: 3_000, firstAtMs: at(5), halfAtMs: at(10) },
    },
  ],
  [
    'The token service has refused this client since 2030-01-01 11:15:00 UTC (401). 7 of 3,000 owners cannot be served (also refused (400) since 11:14:00 UTC). The next call makes an attempt. The API has rejected the tokens of 60 owners since 11:14:00 UTC.',
    {
      unserved: 7,
      causes: [
        cause({ code: 'client_refused', status: 401, scope: 'client', sinceMs: at(-1440), retryAtMs: NOW }),
        cause({ code: 'owner_refused', status: 400, unserved: 2 }),
        rejected,
      ],
    },
  ],
])('the sentence of a status: %s', (expected, changes) => {
  const calm = {
    registry: 'crm',
    atMs: NOW,
    startedAtMs: 0,
    service: 'works',
    known: 3_000,
    unserved: 0,
    waiting: 0,
    causes: [],
    longestQueuedMs: 0,
  } as const;
  expect(sentenceOf({ ...calm, ...changes }, utcWord(NOW))).toBe(expected);
});

it('a failure from the first minute of the process is said to be older, perhaps', () => {
  const word = (sinceMs: number) => sinceWord(sinceMs, { startedAtMs: NOW }, utcWord(NOW));
  expect(word(NOW + 59_999)).toBe('since this process started, or longer');
  expect(word(NOW + 60_000)).toBe('since 11:16:00 UTC');
});

it('owners that nobody calls any more have a sentence of their own', () => {
  const lapsed = (owners: number, last: number, first: number) =>
    lapsedWord({ owners, lastFailedAtMs: at(-60 * last), firstFailedAtMs: at(-60 * first) }, NOW);
  expect(lapsed(18, 2, 9.9)).toBe('18 more failed when last called, 2 to 9 h ago.');
  expect(lapsed(1, 2.5, 2.5)).toBe('1 more failed when last called, 2 h ago.');
});

it('a reason in a sentence is a status where that says more, and the code where there are no other words', () => {
  expect([causePhrase({ code: 'rate_limited' }), causePhrase({ code: 'closed' })]).toEqual(['limited', 'closed']);
  expect(causePhrase({ code: 'client_refused', status: 401 })).toBe('client refused (401)');
});

it.each([Number.NaN, Number.POSITIVE_INFINITY, -1e300])('a clock beyond all dates breaks no sentence: %d', (ms) => {
  expect(utcWord(ms)(ms)).toMatch(/UTC$/);
});
