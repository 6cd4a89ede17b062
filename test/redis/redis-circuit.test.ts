import { expect, it } from 'vitest';
import { RedisCircuit } from '../../src/redis/redis-circuit.ts';

it.each([
  [30_000, 4_000],
  [30_001, 1_000],
])('a failure %i ms after the one before opens the circuit of Redis for %i ms', (afterMs, pauseMs) => {
  const circuit = new RedisCircuit(() => 1);
  circuit.failed(0, 'timeout', false);
  circuit.failed(1_000, 'timeout', true);
  circuit.close();
  const atMs = 1_000 + afterMs;
  circuit.failed(atMs, 'timeout', false);
  expect([circuit.isDue(atMs + pauseMs - 1), circuit.isDue(atMs + pauseMs)]).toEqual([false, true]);
});
