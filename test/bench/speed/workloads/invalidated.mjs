import { seeded } from '../../../helpers/seeded.mjs';
import { peers } from '../../peers/index.mjs';
import { inTurns, picksOf, pooled, pooledCost, rowsOf } from '../measure.mjs';
import { ours, verify } from '../ours.mjs';
import { keysOf, startService } from '../service.mjs';

export const title =
  'What MSAL publishes for itself: 500 tenants, 5 % of the calls after an invalidation, a 100 ms endpoint';

const CALLERS = 64;

export async function run({ quick }) {
  const service = await startService({ delayMs: 100 });
  const keys = keysOf(500);
  const calls = picksOf(keys, quick ? 2_000 : 10_000);
  const opened = [];
  const calling = ({ name, open }) => {
    let player;
    const random = seeded(2);
    const call = async (key) => {
      const token = await player.getToken(key);
      verify(key, token);
      if (random() >= 0.05) return;
      const renewed = await player.renew(key, token);
      verify(key, renewed);
      if (renewed === token) throw new Error(`${name} gave ${key} the rejected token again`);
    };
    return async () => {
      if (!player) {
        player = await open(service, name === 'ours' ? { concurrency: CALLERS } : undefined);
        opened.push(player);
        await pooled(player.getToken, keys, CALLERS);
      }
      return (await pooledCost(call, calls, CALLERS)).cpuUs;
    };
  };
  const candidates = Object.fromEntries([ours, ...peers].map((player) => [player.name, calling(player)]));
  const rows = rowsOf(await inTurns(candidates, quick ? 1 : 2, { collect: true }), 'ours');
  for (const player of opened) await player.close();
  service.stop();
  return [{ what: '5 % invalidated', unit: 'µs of CPU time per call', base: 'ours', rows }];
}
