/** What grows with owners. */

import { keysOf, number } from '../scene.mjs';

const heapMb = () => {
  globalThis.gc();
  globalThis.gc();
  return process.memoryUsage().heapUsed / 2 ** 20;
};

/** Owners pass through, each in use for a moment: more than any cache here holds, then as many again as half of it. */
async function memory(scene) {
  const [first, further] = [12_000, 6_000];
  await scene.script({ latencyMs: 0, lifetime: 3600 });
  const { getToken } = await scene.open();
  const afterMb = [];
  let failed = 0;
  for (const [round, count] of [first, further].entries()) {
    let left = count;
    const worker = async () => {
      while (left-- > 0) failed += (await scene.call(`round-${round}-owner-${left}`, getToken)).ok ? 0 : 1;
    };
    await Promise.all(Array.from({ length: 32 }, worker));
    afterMb.push(heapMb());
  }
  const perOwner = ((afterMb[1] - afterMb[0]) * 2 ** 20) / further;
  return {
    good: failed === 0 && perOwner <= 250,
    figure: `${number(perOwner)} bytes kept per further owner${failed ? `; ${failed} failed` : ''}`,
  };
}

/** A burst of callers for one cold owner, beside work that needs the event loop. */
async function burst(scene) {
  await scene.script({ latencyMs: 200, lifetime: 3600 });
  const { getToken } = await scene.open();
  await scene.callAll(keysOf(10), getToken);
  scene.watchLoop();
  const { failed } = await scene.callAll(Array(20_000).fill('cold'), getToken);
  const stallMs = scene.longestStallMs();
  return { good: failed === 0 && stallMs < 100, figure: `longest stall ${number(stallMs)} ms` };
}

export const bounds = [
  {
    id: 'memory',
    criterion: '6,000 more owners: ≤ 250 bytes of heap each',
    concerns: ['cache'],
    title: '12,000 owners pass through, then 6,000 others',
    good: 'the second group adds at most 250 bytes per owner',
    timeoutMs: 40_000,
    run: memory,
  },
  {
    id: 'burst',
    criterion: '20,000 callers of one cold owner: no stall of 100 ms',
    concerns: ['cache'],
    title: '20,000 callers for one cold owner',
    good: 'the event loop is never blocked for 100 ms',
    timeoutMs: 40_000,
    run: burst,
  },
];
