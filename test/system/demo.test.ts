import { describe, expect, it } from 'vitest';
import { runCommandLine } from '../../src/cli/commands.ts';
import { drawResult, widthsFor } from '../../src/cli/demo/picture.ts';
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

const numberIn = (text = '') => Number(text.replaceAll(',', ''));

describe('demo', () => {
  it('runs against the sandbox, passes all its checks, and exits with 0', async () => {
    const { code, out, err } = await runCommand(['demo']);
    expect(err).toBe('');
    const ending = out.replaceAll(/\s+/g, ' ');
    const [, calls, requests] = /([\d,]+) calls for 200 owners needed ([\d,]+) token requests/.exec(ending) ?? [];
    expect(numberIn(requests)).toBeLessThan(numberIn(calls) / 20);
    expect(ending).toContain('All checks passed.');
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
    expect(text.trimEnd().split('\n').at(-1)).toBe('See it live: npx owner-token-registry demo --view');
  });

  it('--view serves the live view of owners that make calls, until it is interrupted', async () => {
    let text = '';
    const out = {
      write(chunk: string | Uint8Array) {
        text += String(chunk);
        return true;
      },
    };
    const stop = new AbortController();
    const ended = runCommandLine(['demo', '--view'], { env: {}, out, err: out, signal: stop.signal });
    while (!text.includes('Ctrl-C')) await new Promise(setImmediate);
    const url = /Live view: (\S+)/.exec(text)?.[1] ?? '';
    expect(await (await fetch(url)).text()).toContain('live-view.js');
    const requests = async (): Promise<number> => {
      const { body } = await fetch(`${url}events`);
      for await (const part of body ?? []) {
        const [, first] = /"requests":(\d+)/.exec(Buffer.from(part).toString()) ?? [];
        if (first !== undefined) return Number(first);
      }
      return 0;
    };
    while ((await requests()) === 0) await new Promise(setImmediate);
    stop.abort();
    expect(await ended).toBe(0);
    await expect(fetch(url)).rejects.toThrow();
  });

  it('stops when it is interrupted', async () => {
    const { code } = await runCommand(['demo'], {}, AbortSignal.abort());
    expect(code).toBe(130);
  });

  it('draws requests in proportion, waiting times, every owner and the failed checks', () => {
    const picture = drawResult(RESULT);
    expect(picture).toContain('cold start          █░░░░');
    expect(picture).toMatch(/ 3 for 4,000/);
    expect(picture).toMatch(/later {15}░{2} .* 0 for 400/);
    expect(picture).toContain('●○✗');
    expect(picture).toContain('✗ two: 1 wrong');
    expect(picture).toContain('1 of 2 checks failed');
  });

  it.each([
    [undefined, 60],
    [40, 60],
    [80, 80],
    [300, 100],
  ])('uses the width of the terminal, from 60 to 100 columns: %s', (columns, width) => {
    const lines = drawResult(RESULT, widthsFor(columns)).split('\n');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(width);
    expect(lines.find((line) => line.startsWith('  cold start'))?.length).toBeGreaterThan(width - 10);
  });
});
