import { expect, it } from 'vitest';
import { ServerTime } from '../../src/redis/server-time.ts';

const HOUR_MS = 3_600_000;
const SERVER_US = 1_900_000_000_000_000;

it("the server's time is that of the server furthest ahead in the last hour, and is forgotten after two", () => {
  const time = new ServerTime();
  time.sample(SERVER_US, 0, 0);
  const isAhead = (nowMs: number) => {
    // After a failover to a server whose clock is a minute behind.
    time.sample(SERVER_US + (nowMs - 60_000) * 1_000, nowMs, nowMs);
    return time.at(nowMs) === SERVER_US + nowMs * 1_000;
  };
  expect([HOUR_MS - 1, HOUR_MS, 2 * HOUR_MS - 1, 2 * HOUR_MS].map(isAhead)).toEqual([true, true, true, false]);
});
