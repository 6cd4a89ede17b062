/**
 * A fleet in seeded worlds: replicas with clocks minutes apart share through the model of the shared record (which
 * `test/redis/record-scripts.test.ts` holds against the real scripts), while Redis and the service fail and recover. After
 * every step what callers got is held against the contract; when the faults have ended, so is that all come together.
 */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import type { AccessToken } from '../../src/token.ts';
import { settle } from '../helpers/manual-clock.ts';
import { FleetSource, ModelFleet, type ModelReplica, type RedisHealth } from '../helpers/model-fleet.ts';
import { Random } from '../helpers/random.ts';
import type { ScriptedCall } from '../helpers/scripted-source.ts';

const LIFETIME_S = 60;
const OWNERS = ['key-a', 'key-b', 'key-c'];
const HEALTHS: readonly RedisHealth[] = ['up', 'up', 'down', 'hung', 'mute', 'read_only'];
const SKEWS_MS = [0, 180_000, -240_000];
const STEPS = 120;

type Service = 'answers' | 'fails' | 'hangs';

class FleetWorld {
  readonly fleet: ModelFleet;
  readonly replicas: readonly ModelReplica[];
  readonly broken: string[] = [];
  service: Service = 'answers';
  readonly #random: Random;
  readonly #issuedAtMs = new Map<string, number>();
  readonly #last = this.#table<AccessToken | undefined>(() => undefined);
  readonly #hanging: ScriptedCall[] = [];

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.fleet = new ModelFleet(new FleetSource((call) => this.#serve(call)), () => this.#random.next());
    this.replicas = SKEWS_MS.map((skewMs) => this.fleet.replica({ skewMs }));
  }

  async step(): Promise<void> {
    const replica = this.#random.below(this.replicas.length);
    const owner = this.#random.below(OWNERS.length);
    const drawn = this.#random.next();
    if (drawn < 0.5) this.call(replica, owner);
    else if (drawn < 0.6) this.#reject(replica, owner);
    else if (drawn < 0.68) this.fleet.health = this.#random.pick(HEALTHS);
    else if (drawn < 0.74) this.#replica(replica).health = this.#random.pick(HEALTHS);
    else if (drawn < 0.8) this.service = this.#random.pick<Service>(['answers', 'answers', 'fails', 'hangs']);
    else await this.fleet.pass(this.#random.pick([20, 300, 2_000, 20_000]), 500);
    await settle();
  }

  /** One call: whatever it is given must be this owner's and alive. It must not fail while the last token it got lives. */
  call(replica: number, owner: number): void {
    const last = this.#last[replica]?.[owner];
    const key = OWNERS[owner] as string;
    this.#replica(replica)
      .registry.getToken(key)
      .then(
        (token) => {
          (this.#last[replica] as (AccessToken | undefined)[])[owner] = token;
          const issuedAtMs = this.#issuedAtMs.get(token.value) ?? Number.NaN;
          if (!token.value.endsWith(`-of-${key}`)) this.broken.push(`${key} was given ${token.value}`);
          if (!(this.fleet.clock.now() < issuedAtMs + LIFETIME_S * 1000)) this.broken.push(`${token.value} had ended`);
        },
        (error: unknown) => {
          if (!(error instanceof OwnerTokenError)) this.broken.push(`a call failed with ${error}`);
          else if (this.fleet.clock.now() < this.#servedUntilMs(last))
            this.broken.push(`${error.code} hides ${last?.value}`);
        },
      );
  }

  /** Everything is well again, and time passes. */
  async repair(): Promise<void> {
    this.fleet.health = 'up';
    for (const replica of this.replicas) replica.health = 'up';
    this.service = 'answers';
    for (const call of this.#hanging.splice(0)) this.#serve(call);
    await this.fleet.pass(400_000, 2_000);
    // A breaker that is open learns from the next call that Redis is back; what that call got on its own then ends.
    for (const index of this.replicas.keys()) for (const owner of OWNERS.keys()) this.call(index, owner);
    await this.fleet.pass(100_000, 500);
  }

  /** What each replica holds for this owner once it was called for it. */
  async held(owner: number): Promise<(string | undefined)[]> {
    for (const index of this.replicas.keys()) {
      this.call(index, owner);
      await this.fleet.pass(200, 20);
    }
    return this.replicas.map(({ registry }) => registry.peek(OWNERS[owner] as string)?.value);
  }

  /** A replica's clock is right about durations, and the margin is a twentieth of the lifetime. */
  #servedUntilMs(token: AccessToken | undefined): number {
    return token ? (this.#issuedAtMs.get(token.value) as number) + 0.9 * LIFETIME_S * 1000 : 0;
  }

  #serve(call: ScriptedCall): void {
    if (this.service === 'hangs') {
      this.#hanging.push(call);
      return;
    }
    if (this.service === 'fails') {
      call.fail(new OwnerTokenError('endpoint_unavailable', 'it is down'));
      return;
    }
    const token = `t${this.#issuedAtMs.size}-of-${call.accessKey}`;
    this.#issuedAtMs.set(token, this.fleet.clock.now());
    call.succeed({ token, response: { expires_in: LIFETIME_S } });
  }

  #reject(replica: number, owner: number): void {
    const token = this.#last[replica]?.[owner];
    if (token) this.#replica(replica).registry.reject(OWNERS[owner] as string, token);
  }

  #replica(index: number): ModelReplica {
    return this.replicas[index] as ModelReplica;
  }

  #table<T>(make: () => T): T[][] {
    return SKEWS_MS.map(() => OWNERS.map(make));
  }
}

describe('a fleet in the simulated world', () => {
  const first = Number(process.env.SIMULATION_SEED ?? 1);
  it.each(Array.from({ length: Number(process.env.FLEET_WORLDS ?? 8) }, (_, index) => first + index))(
    'keeps every invariant, and converges: seed %d',
    async (seed) => {
      const world = new FleetWorld(seed);
      for (let step = 0; step < STEPS; step++) {
        await world.step();
        expect(world.broken, `seed ${seed}, step ${step}`).toEqual([]);
      }
      await world.repair();
      for (const owner of OWNERS.keys()) {
        const before = world.fleet.source.calls.length;
        const held = await world.held(owner);
        expect(new Set(held).size, `seed ${seed}: ${held}`).toBe(1);
        expect(held[0]).toBeDefined();
        expect(world.fleet.source.calls.length - before).toBeLessThanOrEqual(1);
      }
      expect(world.broken).toEqual([]);
    },
  );
});
