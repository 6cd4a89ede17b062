/**
 * What sharing over a fleet does and costs: real processes, a real Redis, by what the service counted. Needs
 * `redis-server`; without one it says so.
 *
 *   npm run bench -- fleet                          all figures but the large one
 *   node test/bench/fleet/main.mjs hits killed      those named: fuzz, hits, wakes, killed, cost, refresh, cold, faults;
 *                                                   fault-hung and others for one row of faults; cost8 or refresh20 for
 *                                                   one number of processes; large for 50 processes and 1,000 owners
 */

import { bundle } from '../../helpers/bundle.mjs';

const { figures, replica } = await bundle({
  figures: 'test/bench/fleet/figures.ts',
  replica: 'test/helpers/fleet-worker.ts',
});
const { main } = await import(figures);
process.exitCode = await main(replica, process.argv.slice(2));
