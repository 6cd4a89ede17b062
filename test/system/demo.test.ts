import { describe, expect, it } from 'vitest';
import { drawResult } from '../../src/cli/demo/picture.ts';
import type { DemoResult } from '../../src/cli/demo/run.ts';
import { runCommand } from '../helpers/terminal.ts';

const RESULT: DemoResult = {
  owners: 3,
  phases: [
    { name: 'cold start', calls: 4000, tokenRequests: 3 },
    { name: 'later', calls: 400, tokenRequests: 0 },
  ],
  waitsMs: [0.5, 0.5, 5, 500],
  ownerStates: ['served', 'refused', 'wrong'],
  wrongOwner: 1,
  seconds: 1.25,
  checks: [
    { name: 'one', ok: true, found: 'as expected' },
    { name: 'two', ok: false, found: '1 wrong' },
  ],
};

describe('demo', () => {
  it('runs against the sandbox, passes all its checks, and exits with 0', async () => {
    const { code, out, err } = await runCommand(['demo', '--json']);
    expect(err).toBe('');
    const result = JSON.parse(out);
    expect(result.checks.filter((check: { ok: boolean }) => !check.ok)).toEqual([]);
    expect(result).toMatchObject({ ok: true, owners: 200, ownersServed: 199, ownersRefused: 1, wrongOwner: 0 });
    expect(result.tokenRequests).toBeLessThan(result.calls / 20);
    expect(code).toBe(0);
  });

  it('stops when it is interrupted', async () => {
    const { code } = await runCommand(['demo', '--json'], {}, AbortSignal.abort());
    expect(code).toBe(130);
  });

  it('draws requests in proportion, waiting times, each owner and the failed checks', () => {
    const picture = drawResult(RESULT);
    expect(picture).toContain('cold start          █░░░░');
    expect(picture).toMatch(/ 3 for 4,000/);
    expect(picture).toMatch(/later {15}░{4} .* 0 for 400/);
    expect(picture).toContain('●○✗');
    expect(picture).toContain('✗ two: 1 wrong');
    expect(picture).toContain('1 of 2 checks failed');
  });
});
