import { peers } from '../../peers/index.mjs';
import { cpuUsSince, inTurns } from '../measure.mjs';
import { ourPlayers, verify } from '../ours.mjs';
import { startService } from '../service.mjs';

export const title = '10,000 callers at once for one cold owner';
export const unit = 'µs of CPU time per caller';
export const base = 'ours';

const CALLERS = 10_000;
/** Of a peer that makes a request for each: with more, its own connections fail. */
const CALLERS_WITHOUT_SHARING = 500;

export async function run({ quick }) {
  const service = await startService();
  const players = [...ourPlayers(), ...peers];
  const candidates = {};
  const notes = {};
  const opened = [];
  for (const { name, open } of players) {
    const player = await open(service);
    opened.push(player);
    const trial = await burst(service, player, `trial-${name}`, 100);
    const callers = trial.requests === 1 ? CALLERS : CALLERS_WITHOUT_SHARING;
    let round = 0;
    candidates[name] = async () => {
      const { us, requests } = await burst(service, player, `${name}-${round++}`, callers);
      notes[name] =
        `${requests} ${requests === 1 ? 'request' : 'requests'} for ${callers.toLocaleString('en')} callers`;
      return us;
    };
  }
  const rows = await inTurns(candidates, quick ? 2 : 5, { collect: true });
  for (const player of opened) await player.close();
  service.stop();
  return [{ rows: rows.map((row) => ({ ...row, note: notes[row.name] })) }];
}

/** Microseconds per caller, and how many requests the service saw. */
async function burst(service, player, name, callers) {
  const accessKey = `burst-of-${name.replaceAll(' ', '-')}`;
  const before = await service.requests();
  const started = process.cpuUsage();
  const tokens = await Promise.all(Array.from({ length: callers }, () => player.getToken(accessKey)));
  const us = cpuUsSince(started) / callers;
  for (const token of tokens) verify(accessKey, token);
  return { us, requests: (await service.requests()) - before };
}
