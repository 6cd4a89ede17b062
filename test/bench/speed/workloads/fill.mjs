import { peers } from '../../peers/index.mjs';
import { inTurns, pooledCost } from '../measure.mjs';
import { bareFetch, bareHttp, openOurs, verify } from '../ours.mjs';
import { figure } from '../report.mjs';
import { keysOf, startService } from '../service.mjs';

export const title = 'Cold fill: new owners over loopback';
export const unit = 'µs of the processor per owner';
export const base = 'bare node:http';

export async function run({ quick }) {
  const service = await startService();
  const tables = [];
  for (const atOnce of [16, 64]) {
    const concurrency = atOnce;
    const players = {
      'bare node:http': () => bareHttp(service),
      'bare fetch': () => bareFetch(service),
      ours: () => openOurs(service, { concurrency }),
      'ours over fetch': () => openOurs(service, { concurrency, fetch }),
      'ours, logging': () => openOurs(service, { concurrency, logged: true }),
      'ours, OpenTelemetry': () => openOurs(service, { concurrency, traced: true }),
      ...(!quick && Object.fromEntries(peers.map(({ name, open }) => [name, () => open(service)]))),
    };
    const wall = {};
    const candidates = Object.fromEntries(
      Object.entries(players).map(([name, open]) => [name, filling(name, open, atOnce, wall, quick)]),
    );
    const rows = await inTurns(candidates, quick ? 5 : 7, { collect: true });
    const note = (name) => `${figure(1e6 / Math.min(...wall[name]))} owners a second`;
    tables.push({ atOnce, rows: rows.map((row) => ({ ...row, note: note(row.name) })) });
  }
  service.stop();
  return tables;
}

/** Opens anew for each round. The peers are slower by so much that fewer owners time them as well. */
function filling(name, open, atOnce, wall, quick) {
  const isPeer = peers.some((peer) => peer.name === name);
  const keys = keysOf(quick || isPeer ? 1_000 : 5_000);
  wall[name] = [];
  return async () => {
    const player = await open();
    const { us, cpuUs } = await pooledCost(async (key) => verify(key, await player.getToken(key)), keys, atOnce);
    wall[name].push(us);
    await player.close();
    return cpuUs;
  };
}
