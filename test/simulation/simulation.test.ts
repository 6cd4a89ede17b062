import { expect, it } from 'vitest';
import { replayCommand, runWorld, runWorlds } from './worlds.ts';

/** How long the random worlds run. */
const SLICE_SECONDS = Number(process.env.SIMULATION_SECONDS ?? (process.env.CI ? 10 : 2));

it(`the simulated world keeps every invariant for ${SLICE_SECONDS} s`, {
  timeout: SLICE_SECONDS * 2_000 + 20_000,
}, async () => {
  const runSeed = Number(process.env.SIMULATION_SEED ?? 1);
  const endsAtMs = Date.now() + SLICE_SECONDS * 1_000;
  const { worlds, steps, broken } = await runWorlds(runSeed, () => Date.now() < endsAtMs);
  console.log(`simulation: run ${runSeed}, ${worlds} worlds, ${steps} steps`);
  const said = broken && `run ${runSeed}: ${broken.what}; replay: ${replayCommand(broken)}`;
  expect(said).toBeUndefined();
});

it('the simulated world is the same world for the same seed', async () => {
  const lines = [[], []] as string[][];
  for (const trace of lines) await runWorld({ seed: 42, steps: 1_000, trace: (line) => trace.push(line) });
  expect(lines[0]).toEqual(lines[1]);
  expect(lines[0]?.length).toBeGreaterThan(500);
});

it("the simulated world notices another owner's token", async () => {
  const whats = [];
  for (let seed = 1; seed <= 5; seed++)
    whats.push((await runWorld({ seed, steps: 1_000, always: 'wrong-owner' })).what);
  expect(whats.join('\n')).toMatch(/was given a token of owner/);
});
