import { seeded } from '../../../helpers/seeded.mjs';
import { peers } from '../../peers/index.mjs';
import { inTurns, picksOf, pooled, pooledCost } from '../measure.mjs';
import { ourPlayers, verify } from '../ours.mjs';
import { keysOf, startService } from '../service.mjs';

export const title =
  'What MSAL publishes for itself: 500 tenants, 5 % of the calls after an invalidation, a 100 ms endpoint';
export const unit = 'µs of CPU time per call';
export const base = 'ours';

const CALLERS = 64;

export async function run({ quick }) {
  const service = await startService({ delayMs: 100 });
  const keys = keysOf(500);
  const calls = picksOf(keys, 'uniform', quick ? 2_000 : 10_000);
  const players = [...ourPlayers({ concurrency: CALLERS }), ...peers];
  const opened = [];
  const candidates = {};
  const wall = {};
  for (const { name, open } of players) {
    const player = await open(service);
    opened.push(player);
    await pooled(player.getToken, keys, CALLERS);
    const random = seeded(2);
    wall[name] = [];
    const call = async (key) => {
      const token = await player.getToken(key);
      verify(key, token);
      if (random() >= 0.05) return;
      const renewed = await player.renew(key, token);
      verify(key, renewed);
      if (renewed === token) throw new Error(`${name} gave ${key} the rejected token again`);
    };
    candidates[name] = async () => {
      const { us, cpuUs } = await pooledCost(call, calls, CALLERS);
      wall[name].push(us);
      return cpuUs;
    };
  }
  const rows = await inTurns(candidates, quick ? 1 : 3, { collect: true });
  for (const player of opened) await player.close();
  service.stop();
  const noteOf = (name) => `${Math.min(...wall[name]).toFixed(0)} µs on the clock, waits shared by ${CALLERS} callers`;
  return [{ rows: rows.map((row) => ({ ...row, note: noteOf(row.name) })) }];
}
