import { expect, it } from 'vitest';
import { parseAnswer } from '../../../src/cli/doctor/answer.ts';
import { checksOn } from '../../../src/cli/doctor/checks.ts';

const NOW_MS = Date.parse('2026-11-28T12:00:00Z');
const DAY_S = 86_400;

it.each([
  [59, 'warning'],
  [60, 'ok'],
  [30 * DAY_S, 'ok'],
  [31 * DAY_S, 'warning'],
])('a lifetime of %d s is %s: a minute is not short, nor a month long', (expires_in, status) => {
  const body = { access_token: 'opaque', token_type: 'Bearer', expires_in };
  const answer = parseAnswer(body, { sent: [], nowMs: NOW_MS });
  const checks = answer ? checksOn(answer, NOW_MS) : [];
  expect(checks.find(({ check }) => check === 'lifetime')?.status).toBe(status);
});
