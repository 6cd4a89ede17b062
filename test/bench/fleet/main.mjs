/**
 * What sharing over a fleet does and costs: real processes, a real Redis, by what the service counted. Needs
 * `redis-server`; without one it says so.
 *
 *   npm run bench -- fleet                          all figures but the large one
 *   node test/bench/fleet/main.mjs hits killed      those named: fuzz, hits, wakes, killed, cost, refresh, cold, faults;
 *                                                   fault-hung and others for one row of faults; cost8 or refresh20 for
 *                                                   one number of processes; large for 50 processes and 1,000 owners;
 *                                                   slow for services slower than a lease, forget, memory of a record,
 *                                                   leaders for leaders that die, clock for a clock of Redis that steps
 *                                                   back (needs a C compiler), crowd for more replicas than cores
 *   node test/bench/fleet/main.mjs faults --docs    also stores the rows of faults, slow, forget or memory, and renews
 *                                                   docs/internals/fleet-numbers.md. Its other rows are stored by hand:
 *                                                   edit `results.json`, then run node test/bench/stored.mjs
 */

import { bundle } from '../../helpers/bundle.mjs';
import { storeFigures } from '../stored.mjs';

const { figures, replica } = await bundle({
  figures: 'test/bench/fleet/figures.ts',
  replica: 'test/helpers/fleet-worker.ts',
});
const { main } = await import(figures);
const asked = process.argv.slice(2).filter((name) => name !== '--docs');
const { status, tables } = await main(replica, asked);
for (const [name, table] of process.argv.includes('--docs') ? Object.entries(tables) : []) {
  storeFigures('test/bench/fleet/results.json', `node test/bench/fleet/main.mjs ${name}`, { [name]: table });
}
process.exitCode = status;
