/**
 * Rules of promotion side by side: how failures of owners become the endpoint's, looked at for both mistakes. A healthy
 * owner refused because others fail, and a sick endpoint hammered because nobody noticed. In virtual time, from a seed.
 */

import { bundled } from '../simulation/bundle.mjs';
import { Engine } from './figures.engine.mjs';

const GATE = 'src/failures/circuit-breaker.ts';
const literal = {
  file: GATE,
  from: 'if (ownerFailures === 0) this.#suspects.add(owner);',
  to: 'this.#suspects.add(owner);',
};
const noTakeover = {
  file: GATE,
  from: "return failing || this.#probe.standing !== 'failing' || nowMs < this.#probedAtMs + this.#range.baseMs;",
  to: 'return true;',
};
const oneGate = { file: GATE, from: "before && permit.standing === 'failing' && isEscalated && !isAsked", to: 'false' };
const noBehind = {
  file: 'src/failures/failure-scopes.ts',
  from: 'retryAtMonotonicMs: Math.max(hungUntilMs, retryAtMonotonicMs) + lengthMs',
  to: 'retryAtMonotonicMs: hungUntilMs + lengthMs',
};
const fromBefore = {
  file: GATE,
  from: 'if (this.#isFromBefore(permit)) return false;\n    if (ownerFailures',
  to: 'if (ownerFailures',
};

const RULES = {
  'the present rule': [],
  'known owners count too': [literal],
  'no probe is taken over': [noTakeover],
  'known owners pause all': [oneGate],
  'owners not behind the gate': [noBehind],
  'passes from before count': [fromBefore],
  'the literal rule': [fromBefore, literal, noTakeover, oneGate, noBehind],
};

const DEADLINE_MS = 10_000;
const MINUTE_MS = 60_000;
const seed = Number(process.env.SEED ?? 1);

/** What becomes of a request: of this owner, at this time. */
const SCENES = {
  '10 of 200 owners hang': {
    ...{ owners: 200, meanMs: 60_000, forMs: 60 * MINUTE_MS, isSick: (owner) => owner < 10 },
    fails: (owner) => owner < 10 && { afterMs: DEADLINE_MS },
  },
  '10 of 20 owners fail, all rarely called': {
    ...{ owners: 20, meanMs: 300_000, forMs: 600 * MINUTE_MS, isSick: (owner) => owner < 10 },
    fails: (owner) => owner < 10 && { afterMs: 50 },
  },
  '16 of 20 owners hang, the others are called rarely': {
    ...{ owners: 20, meanMs: 1_000, rareMs: 60_000, forMs: 120 * MINUTE_MS, isSick: (owner) => owner < 16 },
    fails: (owner) => owner < 16 && { afterMs: DEADLINE_MS },
  },
  '16 of 20 owners get 503, the others are called rarely': {
    ...{ owners: 20, meanMs: 1_000, rareMs: 60_000, forMs: 120 * MINUTE_MS, isSick: (owner) => owner < 16 },
    fails: (owner) => owner < 16 && { afterMs: 50 },
  },
  'one request in five fails': {
    ...{ owners: 200, meanMs: 10_000, forMs: 60 * MINUTE_MS, isSick: () => false },
    fails: (_owner, _ms, random) => random() < 0.2 && { afterMs: 50 },
  },
  'ten minutes down (503)': {
    ...{ owners: 1_000, meanMs: 10_000, forMs: 30 * MINUTE_MS, isSick: () => false },
    fails: (_owner, ms) => ms > 10 * MINUTE_MS && ms < 20 * MINUTE_MS && { afterMs: 50 },
    down: [10 * MINUTE_MS, 20 * MINUTE_MS],
  },
  'ten minutes down (hangs)': {
    ...{ owners: 1_000, meanMs: 10_000, forMs: 30 * MINUTE_MS, isSick: () => false },
    fails: (_owner, ms) => ms > 10 * MINUTE_MS && ms < 20 * MINUTE_MS && { afterMs: DEADLINE_MS },
    down: [10 * MINUTE_MS, 20 * MINUTE_MS],
  },
  'nine in ten fail for ten minutes': {
    ...{ owners: 1_000, meanMs: 10_000, forMs: 30 * MINUTE_MS, isSick: () => false },
    fails: (_owner, ms, random) => ms > 10 * MINUTE_MS && ms < 20 * MINUTE_MS && random() < 0.9 && { afterMs: 50 },
    down: [10 * MINUTE_MS, 20 * MINUTE_MS],
  },
};

const column = (text, width) => String(text).padStart(width);
const asked = process.argv.slice(2);
for (const [scene, what] of Object.entries(SCENES)) {
  if (asked.length > 0 && !asked.some((name) => scene.startsWith(name))) continue;
  console.log(`\n${scene} (seed ${seed})`);
  console.log(
    `${'rule'.padEnd(28)}${column('healthy refused', 17)}${column('delayed', 10)}${column('attempts down', 15)}${column('back after', 12)}`,
  );
  for (const [rule, patches] of Object.entries(RULES)) {
    const { OwnerTokenRegistry, OwnerTokenError } = await bundled('src/index.ts', patches);
    const { refused, late, calls, attempts, backS } = await play(what, OwnerTokenRegistry, OwnerTokenError);
    const share = (count) => `${((100 * count) / calls).toFixed(2)} %`;
    const mistakes = `${column(share(refused), 17)}${column(share(late), 10)}`;
    console.log(`${rule.padEnd(28)}${mistakes}${column(attempts ?? '', 15)}${column(backS ?? '', 12)}`);
  }
}
process.exit(0);

async function play(
  { owners, meanMs, rareMs = meanMs, forMs, isSick, fails, down },
  OwnerTokenRegistry,
  OwnerTokenError,
) {
  const engine = new Engine(seed);
  const registry = engine.registry(OwnerTokenRegistry, {}, ({ owner }) => {
    const failure = fails(owner, engine.nowMs, engine.random);
    if (!failure) return { afterMs: 50, seconds: 30 };
    return { ...failure, error: new OwnerTokenError('endpoint_unavailable', 'no answer', { status: 503 }) };
  });
  let calls = 0;
  let refused = 0;
  let late = 0;
  let backMs;
  const isDown = (ms) => down && ms >= down[0] && ms < down[1] + 40_000;
  engine.poisson(
    owners,
    (owner) => (isSick(owner) ? meanMs : rareMs),
    (owner) => {
      const fromMs = engine.nowMs;
      const counts = !isSick(owner) && !isDown(fromMs);
      if (counts) calls++;
      const over = (error) => {
        if (down && fromMs > down[1] && !error) backMs ??= engine.nowMs - down[1];
        if (counts && engine.nowMs - fromMs > 1_000) late++;
        // Refused at once, though its own request would have been made: somebody else's failure.
        if (counts && error && engine.nowMs === fromMs && error.failureScope !== 'owner') refused++;
      };
      registry.getToken(engine.key(owner)).then(() => over(), over);
    },
  );
  await engine.runTo(forMs);
  const attempts = down && engine.sentMs.filter((ms) => ms >= down[0] && ms < down[1]).length;
  return { refused, late, calls, attempts, backS: backMs && `${(backMs / 1000).toFixed(1)} s` };
}
