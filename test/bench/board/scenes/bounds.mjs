/** What grows with owners. */

import { keysOf, number } from '../scene.mjs';

const heapMb = () => {
  globalThis.gc();
  globalThis.gc();
  return process.memoryUsage().heapUsed / 2 ** 20;
};

/** 30,000 owners pass through; each of its keys is only in use for a moment. */
async function memory(scene) {
  const [rounds, perRound] = [3, 10_000];
  await scene.script({ latencyMs: 0, lifetime: 3600 });
  const { getToken } = await scene.open();
  const afterMb = [];
  let failed = 0;
  for (let round = 0; round < rounds; round++) {
    let left = perRound;
    const worker = async () => {
      while (left-- > 0) failed += (await scene.call(`round-${round}-owner-${left}`, getToken)).ok ? 0 : 1;
    };
    await Promise.all(Array.from({ length: 32 }, worker));
    afterMb.push(heapMb());
  }
  const perOwner = ((afterMb[2] - afterMb[0]) * 2 ** 20) / (2 * perRound);
  return {
    good: failed === 0 && perOwner <= 100,
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
    title: '30,000 owners pass through, 10,000 after another 10,000',
    good: 'after the first 10,000 no further growth (100 bytes an owner)',
    timeoutMs: 40_000,
    run: memory,
  },
  {
    id: 'burst',
    title: '20,000 callers for one cold owner',
    good: 'the event loop never stands still for 100 ms',
    timeoutMs: 40_000,
    run: burst,
  },
];
