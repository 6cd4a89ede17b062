/** `owner-token-registry demo --fleet`: eight processes that share tokens through one Redis. */

import { EXIT, type Terminal } from '../command.ts';
import { checksOf, drawFleet } from './fleet-picture.ts';
import { runFleet } from './fleet-run.ts';
import { type DemoRedis, findRedis, Unavailable } from './redis.ts';
import type { ReplicaProcess } from './replica-process.ts';

export async function runFleetDemo(terminal: Terminal, json: boolean): Promise<number> {
  const replicas: ReplicaProcess[] = [];
  let redis: DemoRedis | undefined;
  try {
    redis = await findRedis(terminal);
    const announce = (line: string) => void (json || terminal.out.write(`${line} ...\n`));
    const result = await runFleet(redis, replicas, announce, terminal.signal);
    const checks = checksOf(result);
    const ok = checks.every((check) => check.ok);
    terminal.out.write(json ? `${JSON.stringify({ ok, ...result, checks })}\n` : `\n${drawFleet(result, checks)}\n`);
    return ok ? EXIT.ok : EXIT.failed;
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    terminal.err.write(`owner-token-registry demo --fleet: ${error.message}\n`);
    return EXIT.failed;
  } finally {
    for (const each of replicas) each.kill();
    redis?.stop();
  }
}
