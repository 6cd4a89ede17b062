import { peers } from '../../peers/index.mjs';
import { cpuUsSince, inTurns, rowsOf } from '../measure.mjs';
import { ours, verify } from '../ours.mjs';
import { startService } from '../service.mjs';

export const title = '10,000 callers at once for one cold owner';

const CALLERS = 10_000;
/** Of a peer that makes a request for each: with more, its own connections fail. */
const CALLERS_WITHOUT_SHARING = 500;

export async function run({ quick }) {
  const service = await startService();
  const notes = {};
  const opened = [];
  const bursting = ({ name, open }) => {
    let player;
    let callers;
    let round = 0;
    return async () => {
      if (!player) {
        player = await open(service);
        opened.push(player);
      }
      callers ??=
        (await burst(service, player, `trial-${name}`, 100)).requests === 1 ? CALLERS : CALLERS_WITHOUT_SHARING;
      const { us, requests } = await burst(service, player, `${name}-${round++}`, callers);
      notes[name] =
        `${requests} ${requests === 1 ? 'request' : 'requests'} for ${callers.toLocaleString('en')} callers`;
      return us;
    };
  };
  const candidates = Object.fromEntries([ours, ...peers].map((player) => [player.name, bursting(player)]));
  const rows = rowsOf(await inTurns(candidates, quick ? 2 : 5, { collect: true }), 'ours');
  for (const player of opened) await player.close();
  service.stop();
  const what = 'concurrent callers';
  return [
    {
      what,
      unit: 'µs of CPU time per caller',
      base: 'ours',
      rows: rows.map((row) => ({ ...row, note: notes[row.name] })),
    },
  ];
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
