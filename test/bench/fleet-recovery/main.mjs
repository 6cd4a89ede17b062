/**
 * Row N4 with real processes: how fast the worst of 20 replicas recovers from an outage of 10 s, compared with a process
 * that does not share. Five worlds at once (each with a service, a Redis prefix, and a registry in each process), four
 * times: 20 outages in two minutes. Needs `redis-server`; without one it says so.
 */

import { bundle } from '../../helpers/bundle.mjs';

const { outages, replica } = await bundle({
  outages: 'test/bench/fleet-recovery/outages.ts',
  replica: 'test/bench/fleet-recovery/replica.ts',
});
const { main } = await import(outages);
process.exitCode = await main(replica);
