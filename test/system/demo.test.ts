import { describe, expect, it } from 'vitest';
import { runCommandLine } from '../../src/cli/commands.ts';
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
  it('demo runs against the sandbox, passes all its checks, and exits with 0', async () => {
    const { code, out, err } = await runCommand(['demo', '--json']);
    expect(err).toBe('');
    const result = JSON.parse(out);
    expect(result.checks.filter((check: { ok: boolean }) => !check.ok)).toEqual([]);
    expect(result).toMatchObject({ ok: true, owners: 200, ownersServed: 199, ownersRefused: 1, wrongOwner: 0 });
    expect(result.tokenRequests).toBeLessThan(result.calls / 20);
    expect(code).toBe(0);
  });

  it('fits 60 columns, and rewrites one line of progress on a terminal', async () => {
    let text = '';
    const out = {
      isTTY: true,
      columns: 60,
      write(chunk: string | Uint8Array) {
        text += String(chunk);
        return true;
      },
    };
    const { signal } = new AbortController();
    expect(await runCommandLine(['demo'], { env: {}, out, err: out, signal })).toBe(0);
    const [progress = '', ...picture] = text.split('\n');
    const drawn = progress.split('\r').map((line) => line.replace('\u001b[K', ''));
    expect(drawn.some((line) => line.startsWith('  an hour of traffic'))).toBe(true);
    expect(drawn.at(-1)).toBe('');
    expect(Math.max(...drawn.map(({ length }) => length))).toBeLessThan(60);
    expect(picture.length).toBeGreaterThan(30);
    expect(picture.filter(({ length }) => length > 60)).toEqual([]);
  });

  it('demo stops when it is interrupted', async () => {
    const { code } = await runCommand(['demo', '--json'], {}, AbortSignal.abort());
    expect(code).toBe(130);
  });

  it('demo draws requests in proportion, waiting times, each owner and the failed checks', () => {
    const picture = drawResult(RESULT);
    expect(picture).toContain('cold start          █░░░░');
    expect(picture).toMatch(/ 3 for 4,000/);
    expect(picture).toMatch(/later {15}░{2} .* 0 for 400/);
    expect(picture).toContain('●○✗');
    expect(picture).toContain('✗ two: 1 wrong');
    expect(picture).toContain('1 of 2 checks failed');
  });
});
