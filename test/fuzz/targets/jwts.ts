/** The reader of JWTs: what it makes of a token alone, and what a registry makes of it beside a stated lifetime. */

import fc from 'fast-check';
import { jwtTimes } from '../../../src/expiry/jwt-times.ts';
import { OwnerTokenRegistry } from '../../../src/index.ts';
import { ManualClock } from '../../helpers/manual-clock.ts';
import { ScriptedSource } from '../../helpers/scripted-source.ts';
import { mustBeTyped, mustBeUsable, outcomeOf } from '../checks.ts';
import { jsonOf, mostly, mutated, oddValues, texts } from '../inputs.ts';
import { must, targetOf } from '../target.ts';

const NOW_S = new ManualClock().now() / 1000;
const MAX_DATE_MS = 8.64e15;

const instants = mostly(
  fc.integer({ min: -100_000, max: 100_000 }).map((seconds) => NOW_S + seconds),
  fc.oneof(oddValues, fc.double()),
);
const claims = fc.oneof(
  { weight: 9, arbitrary: jsonOf({ iat: instants, exp: instants, nbf: instants, sub: oddValues }) },
  { weight: 1, arbitrary: texts },
);
const tokens = mutated(claims.map((text) => `eyJhbGciOiJub25lIn0.${Buffer.from(text).toString('base64url')}.c2ln`));

export const jwts = targetOf(
  'JWTs',
  fc.record({ token: tokens, expiresIn: fc.option(mostly(fc.nat(100_000)), { nil: undefined }) }),
  async ({ token: given, expiresIn }) => {
    // The registry removes white space around a token.
    const token = given.trim();
    const times = jwtTimes(token);
    for (const ms of Object.values(times ?? {})) {
      must(ms === undefined || (Number.isFinite(ms) && Math.abs(ms) <= MAX_DATE_MS), `a time of ${ms}`);
    }
    const clock = new ManualClock();
    const response = expiresIn === undefined ? {} : { expires_in: expiresIn };
    const source = new ScriptedSource((call) => call.succeed({ token: given, response }));
    const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5 });
    const outcome = await outcomeOf(registry.getToken('key'), clock);
    must(source.calls.length <= 3, `${source.calls.length} requests`);
    if (outcome.status === 'rejected') return mustBeTyped(outcome.reason, clock.now());
    mustBeUsable(outcome.value, clock.now());
    const { expiresAtMs } = outcome.value;
    const lifeMs = (times?.expiresAtMs ?? Infinity) - (times?.issuedAtMs ?? clock.now());
    // Beside a stated lifetime, a policy decides which of the two counts. No lifetime at all is replaced by a short one.
    const endMs = expiresIn === undefined && lifeMs > 0 ? clock.now() + lifeMs : Infinity;
    must(expiresAtMs <= endMs, `it is held until ${expiresAtMs}, and its life ends at ${endMs}`);
    clock.advance(expiresAtMs - clock.now() - 1);
    must(registry.peek('key')?.value === token, 'it is not held to its end');
    clock.advance(1);
    must(registry.peek('key') === undefined, 'it is held beyond its end');
  },
);
