/** The callers of a simulated world: they call, abort, use the tokens that they got, look, forget and resume. */

import type { WorldParts } from './observed.ts';
import type { Oracle } from './oracle.ts';
import type { Registries } from './registries.ts';

export class Callers {
  readonly #world: WorldParts;
  readonly #registries: Registries;
  readonly #newcomersUntilStep: number | undefined;

  /** @param newcomersUntilStep where owners are new one after another: the step by which all of them have called. */
  constructor(world: WorldParts, registries: Registries, newcomersUntilStep: number | undefined) {
    this.#world = world;
    this.#registries = registries;
    this.#newcomersUntilStep = newcomersUntilStep;
  }

  /**
   * One action of one caller.
   *
   * @param drawn in [0, 1): which.
   * @returns whether the world must be quiet before the next step.
   */
  act(drawn: number): boolean {
    const world = this.#world;
    const oracle = world.random.pick(this.#registries.oracles);
    const owner = this.#drawOwner();
    if (drawn < 0.7) this.#call(oracle, owner);
    else if (drawn < 0.78) return this.#abortOne(oracle);
    else if (drawn < 0.92) return this.#useToken();
    else if (drawn < 0.94) {
      world.trace(`look ${oracle.index}`);
      oracle.look(owner);
    } else if (drawn < 0.965) {
      world.trace(`forget ${oracle.index} ${owner}`);
      oracle.forget(owner);
    } else if (drawn < 0.975) {
      world.trace(`resume ${oracle.index} ${owner}`);
      oracle.resume(owner);
    } else if (drawn < 0.993) {
      world.trace(`resume ${oracle.index}`);
      oracle.resume();
    } else {
      world.trace(`forgetAll ${oracle.index}`);
      oracle.forgetAll();
    }
    return false;
  }

  /** Some owners call more often than others. With newcomers, the newest ones do, and each new owner calls at once. */
  #drawOwner(): number {
    const { random, keys, step } = this.#world;
    if (this.#newcomersUntilStep === undefined) return Math.min(random.below(keys.length), random.below(keys.length));
    const known = Math.min(keys.length, 1 + Math.floor((keys.length * step) / this.#newcomersUntilStep));
    return Math.max(random.below(known), random.below(known));
  }

  #call(oracle: Oracle, owner: number): void {
    const world = this.#world;
    const controller = world.random.chance(0.25) ? new AbortController() : undefined;
    if (controller && world.random.chance(0.05)) controller.abort(new Error('before'));
    world.trace(`call ${oracle.index} ${owner}${controller ? ' with signal' : ''}`);
    const call = oracle.call(owner, controller);
    if (call.held !== undefined || call.aborted) world.mustSettle.push(call);
  }

  #abortOne(oracle: Oracle): boolean {
    const world = this.#world;
    for (const call of oracle.pending) {
      if (!call.controller || world.random.chance(0.5)) continue;
      world.trace(`abort a call of ${oracle.index} for ${call.owner}`);
      call.aborted = world.isQuiet;
      call.controller.abort(new Error('no longer wanted'));
      if (world.isQuiet) world.mustSettle.push(call);
      break;
    }
    return true;
  }

  /** A call to the service's resource with a token that a caller has had for a while. */
  #useToken(): boolean {
    const world = this.#world;
    const { random, inUse } = world;
    const [newest] = inUse;
    if (!newest) return true;
    // Most tokens are used at once.
    const { oracle, owner, token } = random.chance(0.5) ? newest : random.pick(inUse);
    // Some routes refuse every token.
    const isRefusing = random.chance(0.15);
    if (this.#registries.serviceOf(oracle).call(token.value, oracle, owner) && !isRefusing) {
      world.trace(`accept ${oracle.index} ${owner} ${token.value}`);
      oracle.accept(owner, token);
    } else {
      world.trace(`reject ${oracle.index} ${owner} ${token.value}`);
      oracle.reject(owner, random.chance(0.2) ? token.value : token);
      if (random.chance(0.5)) this.#call(oracle, owner);
    }
    return false;
  }
}
