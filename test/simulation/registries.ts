/** The registries of a simulated world, each with its oracle: they begin, warm up and close, and their hooks call back. */

import { OwnerTokenRegistry } from '../../src/index.ts';
import type { WorldParts } from './observed.ts';
import { drawOptions, optionsFor } from './options-of-worlds.ts';
import { Oracle } from './oracle.ts';
import type { ServiceModel } from './service.ts';

export class Registries {
  readonly oracles: Oracle[] = [];
  /** How many registries are closing. */
  closing = 0;
  /** How many registries warm up. */
  warming = 0;
  readonly #world: WorldParts;
  readonly #services = new Map<Oracle, ServiceModel>();
  #added = 0;
  #mischiefDepth = 0;

  constructor(world: WorldParts) {
    this.#world = world;
  }

  serviceOf(oracle: Oracle): ServiceModel {
    return this.#services.get(oracle) as ServiceModel;
  }

  add(): void {
    const world = this.#world;
    const { random, keys, clock } = world;
    const service = random.pick(world.services);
    const drawn = drawOptions(random, keys.length, service.profile);
    const oracle: Oracle = new Oracle(world, this.#added++, keys, drawn.watched);
    const parts = {
      source: service.sourceFor(() => oracle),
      clock,
      random,
      oracle: () => oracle,
      mischief: () => this.#callBack(oracle),
    };
    world.trace(`registry ${oracle.index}: ${JSON.stringify({ ...drawn.watched, hooks: drawn.hooks })}`);
    oracle.watch(new OwnerTokenRegistry(optionsFor(drawn, parts)));
    this.oracles.push(oracle);
    this.#services.set(oracle, service);
    if (random.chance(0.1)) this.#warmUp(oracle);
  }

  /** Closes one of them, sometimes twice, and usually replaces it. */
  closeOne(): void {
    const { random } = this.#world;
    const oracle = random.pick(this.oracles);
    this.close(oracle, random.pick([0, 1_000, 5_000]));
    if (random.chance(0.3)) this.close(oracle, 0);
    if (random.chance(0.8) || this.oracles.every(({ closed }) => closed)) this.add();
  }

  close(oracle: Oracle, timeoutMs: number): void {
    if (oracle.closed) return;
    this.#world.trace(`close ${oracle.index}`);
    this.closing++;
    for (const call of oracle.pending) this.#world.mustSettle.push(call);
    oracle.close(timeoutMs).then(
      () => this.#closed(oracle),
      () => this.#world.broken('close rejected'),
    );
    this.serviceOf(oracle).breakOff(oracle);
  }

  #closed(oracle: Oracle): void {
    this.closing--;
    // Requests that ignore their signal may be left: the world keeps the oracle until they end, to check that they change nothing.
    if (this.oracles.length > 1 && oracle.inFlight === 0) this.oracles.splice(this.oracles.indexOf(oracle), 1);
  }

  warmUpOne(): void {
    this.#warmUp(this.#world.random.pick(this.oracles));
  }

  #warmUp(oracle: Oracle): void {
    const { random } = this.#world;
    const controller = new AbortController();
    this.#world.trace(`warm up ${oracle.index}`);
    this.warming++;
    const over = () => {
      this.warming--;
    };
    oracle.warmUp(controller.signal).then(over, over);
    if (random.chance(0.3)) controller.abort(new Error('enough'));
  }

  /** What a hook does that calls back into the registry. */
  #callBack(oracle: Oracle): void {
    if (this.#mischiefDepth > 2) return;
    this.#mischiefDepth++;
    const { random, keys, inUse } = this.#world;
    const owner = random.below(keys.length);
    const drawn = random.below(8);
    this.#world.trace(`a hook of ${oracle.index} calls back: ${drawn} for ${owner}`);
    if (drawn < 3) oracle.call(owner);
    else if (drawn === 3) oracle.forget(owner);
    else if (drawn === 4) oracle.resume();
    else if (drawn === 5 && inUse.length > 0) {
      const used = random.pick(inUse);
      used.oracle.reject(used.owner, used.token);
    } else if (drawn === 6) oracle.look(owner);
    else if (drawn === 7 && random.chance(0.05)) this.close(oracle, 0);
    this.#mischiefDepth--;
  }
}
