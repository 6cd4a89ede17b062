/**
 * One simulated world: a machine with two clocks, one or two token services, registries, owners, callers, and everything that
 * happens to them, drawn from one seed. A step is one action of a caller or one event of the world.
 */

import { type AccessToken, OwnerTokenRegistry } from '../../src/index.ts';
import { Emissions, MARK } from './emissions.ts';
import type { Call, WorldView } from './observed.ts';
import { drawOptions, drawProfile, optionsFor } from './options-of-worlds.ts';
import { Oracle } from './oracle.ts';
import { Random } from './random.ts';
import { type Asked, FAULTS, type Fault, ServiceModel } from './service.ts';
import { WorldClock } from './world-clock.ts';

/** Every other key differs from its predecessor only in a trailing space. */
const keyOf = (owner: number) => `key-${MARK}-${owner >> 1}${owner % 2 === 1 ? ' ' : ''}`;

/** A broken invariant. */
export class Broken extends Error {}

export interface WorldOptions {
  readonly seed: number;
  readonly steps: number;
  /** Receives a line for every step, for a replay. */
  readonly trace?: ((line: string) => void) | undefined;
  /** A fault of every request, to prove that the simulation notices it. */
  readonly always?: Fault;
}

/** Runs everything that is ready to run: all microtasks, and what they queue. */
export const quiet = () => new Promise<void>((resolve) => queueMicrotask(() => process.nextTick(resolve)));

const MAX_REGISTRIES = 3;
/** Tokens that callers have and may use again. */
const MAX_IN_USE = 16;
/** More events at one moment are a loop. */
const MOST_AT_ONCE = 10_000;

export class World implements WorldView {
  step = 0;
  readonly clock = new WorldClock();
  readonly emissions = new Emissions((what) => this.broken(what));
  readonly #random: Random;
  readonly #options: WorldOptions;
  readonly #keys: string[];
  readonly #services: ServiceModel[];
  readonly #oracles: Oracle[] = [];
  readonly #serviceOf = new Map<Oracle, ServiceModel>();
  readonly #inUse: { oracle: Oracle; owner: number; token: AccessToken }[] = [];
  readonly #open: Call[] = [];
  /** Whether the clocks have fractions of milliseconds, as real ones do. */
  readonly #hasFractions: boolean;
  /** Whether owners are new one after another, or all of them from the beginning. */
  readonly #hasNewcomers: boolean;
  /** The time that the machine slept in all. */
  #sleptMs = 0;
  #registries = 0;
  #closing = 0;
  #warming = 0;
  #mischiefDepth = 0;
  #failure: Broken | undefined;

  constructor(options: WorldOptions) {
    this.#options = options;
    this.#random = new Random(options.seed);
    const random = this.#random;
    const owners = random.pick([1, 2, 3, 4, 6, 8, 12, 24, 60]);
    this.#hasNewcomers = owners >= 12 && random.chance(0.5);
    this.#keys = Array.from({ length: owners }, (_, owner) => keyOf(owner));
    this.#hasFractions = random.chance(0.3);
    const realMs = () => this.clock.monotonicMs + this.#sleptMs;
    const services = random.chance(0.7) ? 1 : 2;
    this.#services = Array.from(
      { length: services },
      () => new ServiceModel(drawProfile(random), random, this.clock, realMs),
    );
    const registries = 1 + random.below(MAX_REGISTRIES);
    for (let index = 0; index < registries; index++) this.#addRegistry();
    if (options.always) for (const service of this.#services) service.general = { fault: options.always, share: 1 };
  }

  /** Runs all steps, ends every fault, and checks that everything recovers. */
  async run(): Promise<number> {
    const stopHearing = this.#random.chance(0.2) ? this.emissions.hearChannels(() => {}) : undefined;
    try {
      while (this.step < this.#options.steps) await this.#next();
      await this.#recover();
      return this.step;
    } finally {
      stopHearing?.();
    }
  }

  broken(what: string): void {
    // Thrown inside the library, it would look like a failure of the source; so it is noted and thrown outside.
    this.#failure ??= new Broken(`step ${this.step}: ${what}`);
  }

  delivered(oracle: Oracle, owner: number, token: AccessToken): void {
    if (this.#inUse.length < MAX_IN_USE) this.#inUse.push({ oracle, owner, token });
    else this.#inUse[this.#random.below(MAX_IN_USE)] = { oracle, owner, token };
  }

  // Steps.

  async #next(): Promise<void> {
    this.step++;
    const random = this.#random;
    const drawn = random.next();
    let settles = true;
    if (drawn < 0.5) settles = this.#callerActs(drawn / 0.5);
    else if (drawn < 0.72) settles = this.#serviceAnswers();
    else if (drawn < 0.935)
      await this.#timePasses(random.chance(0.9) ? random.span(1, 3_000) : random.span(1_000, 4_000_000));
    else if (drawn < 0.975) this.#faultsChange();
    else await this.#rareEvent();
    await this.#afterStep(settles);
  }

  /** Usually runs everything that is ready; now and then the next step interrupts it. */
  async #afterStep(settles: boolean): Promise<void> {
    if (!settles && this.#random.chance(0.5)) {
      for (let ticks = this.#random.below(4); ticks > 0; ticks--) await Promise.resolve();
      if (this.#failure) throw this.#failure;
      return;
    }
    await this.#becomeQuiet();
  }

  async #becomeQuiet(): Promise<void> {
    await quiet();
    for (const oracle of this.#oracles) oracle.checkQuiet();
    for (const call of this.#open) if (!call.over) this.broken('a call that must settle at once has not');
    this.#open.length = 0;
    const requests = this.#oracles.reduce((sum, { inFlight }) => sum + inFlight, 0);
    const resends = this.#oracles.reduce((sum, { mayBeSentAgain }) => sum + mayBeSentAgain, 0);
    const timers = this.#oracles.length + requests + resends + this.#closing + this.#warming * this.#keys.length;
    if (this.clock.pendingTimers > timers) this.broken(`${this.clock.pendingTimers} timers, ${timers} at most`);
    if (this.#failure) throw this.#failure;
    this.#quietStep = this.step;
  }

  trace(line: string): void {
    this.#options.trace?.(`${this.step} @${this.clock.monotonicMs} ${line}`);
  }

  /** Returns whether the world must be quiet before the next step. */
  #callerActs(drawn: number): boolean {
    const random = this.#random;
    const oracle = random.pick(this.#oracles);
    const owner = this.#drawOwner();
    if (drawn < 0.7) {
      const controller = random.chance(0.25) ? new AbortController() : undefined;
      if (controller && random.chance(0.05)) controller.abort(new Error('before'));
      if (this.#options.trace) this.trace(`call ${oracle.index} ${owner}${controller ? ' with signal' : ''}`);
      const call = oracle.call(owner, controller);
      if (call.held !== undefined || call.aborted) this.#open.push(call);
      return false;
    }
    if (drawn < 0.78) return this.#abortOne(oracle);
    if (drawn < 0.92) return this.#useToken();
    if (drawn < 0.94) {
      this.trace(`look ${oracle.index}`);
      oracle.look(owner);
      return false;
    }
    if (drawn < 0.965) {
      this.trace(`forget ${oracle.index} ${owner}`);
      oracle.forget(owner);
      return false;
    }
    if (drawn < 0.975) {
      this.trace(`resume ${oracle.index} ${owner}`);
      oracle.resume(owner);
      return false;
    }
    if (drawn < 0.993) {
      this.trace(`resume ${oracle.index}`);
      oracle.resume();
    } else {
      this.trace(`forgetAll ${oracle.index}`);
      oracle.forgetAll();
    }
    return false;
  }

  /** Some owners call more often than others. With newcomers, the newest ones do, and each new owner calls at once. */
  #drawOwner(): number {
    const random = this.#random;
    const { length } = this.#keys;
    if (!this.#hasNewcomers) return Math.min(random.below(length), random.below(length));
    const known = Math.min(length, 1 + Math.floor((length * this.step) / this.#options.steps));
    return Math.max(random.below(known), random.below(known));
  }

  #abortOne(oracle: Oracle): boolean {
    for (const call of oracle.pending) {
      if (!call.controller || this.#random.chance(0.5)) continue;
      this.trace(`abort a call of ${oracle.index} for ${call.owner}`);
      call.aborted = this.#isQuiet;
      call.controller.abort(new Error('no longer wanted'));
      if (this.#isQuiet) this.#open.push(call);
      break;
    }
    return true;
  }

  /** A call to the service's resource with a token that a caller has had for a while. */
  #useToken(): boolean {
    const random = this.#random;
    if (this.#inUse.length === 0) return true;
    const { oracle, owner, token } = random.pick(this.#inUse);
    const service = this.#serviceOf.get(oracle) as ServiceModel;
    // Some routes refuse every token.
    const isRefusing = random.chance(0.15);
    if (service.accepts(token.value, owner) && !isRefusing) {
      this.trace(`accept ${oracle.index} ${owner} ${token.value}`);
      oracle.accept(owner, token);
    } else {
      this.trace(`reject ${oracle.index} ${owner} ${token.value}`);
      oracle.reject(owner, random.chance(0.2) ? token.value : token);
    }
    return false;
  }

  #serviceAnswers(): boolean {
    const service = this.#random.pick(this.#services);
    if (service.asked.length === 0) return true;
    this.#answer(service, this.#random.below(service.asked.length));
    return false;
  }

  #answer(service: ServiceModel, index: number): boolean {
    const { oracle, owner, fault } = service.asked[index] as Asked;
    this.trace(`answer ${oracle.index} ${owner} ${fault ?? ''}`);
    return service.settle(index);
  }

  /** Lets time pass; whatever falls due on the way is a step of its own. */
  async #timePasses(ms: number): Promise<void> {
    await this.#becomeQuiet();
    this.trace(`${ms} ms pass`);
    await this.#timePassesTo(this.clock.monotonicMs + ms + (this.#hasFractions ? this.#random.next() : 0));
  }

  async #timePassesTo(endMs: number): Promise<void> {
    let atOnce = 0;
    for (;;) {
      const nextMs = this.#nextDueMs();
      if (nextMs > endMs) break;
      if (nextMs > this.clock.monotonicMs) atOnce = 0;
      else if (++atOnce > MOST_AT_ONCE) this.broken('timers without end');
      this.clock.moveTo(Math.max(nextMs, this.clock.monotonicMs));
      this.#runDue();
      this.step++;
      await this.#becomeQuiet();
    }
    this.clock.moveTo(endMs);
  }

  #nextDueMs(): number {
    let firstMs = this.clock.nextDueMs;
    for (const service of this.#services) firstMs = Math.min(firstMs, service.nextDueMs);
    return firstMs;
  }

  #runDue(): void {
    if (this.clock.runNext()) {
      this.trace('a timer');
      return;
    }
    const nowMs = this.clock.monotonicMs;
    for (const service of this.#services) {
      const index = service.asked.findIndex(({ dueMs, deadlineMs }) => dueMs <= nowMs || deadlineMs <= nowMs);
      if (index >= 0) {
        this.#answer(service, index);
        return;
      }
    }
  }

  #faultsChange(): void {
    const random = this.#random;
    const service = random.pick(this.#services);
    const owner = random.below(this.#keys.length);
    switch (random.below(7)) {
      case 0:
      case 1:
        service.general = {
          fault: random.chance(0.5) ? random.pick(FAULTS) : undefined,
          share: random.pick([0.1, 0.5, 1]),
        };
        break;
      case 2:
        service.ofOwner.set(owner, random.pick(FAULTS));
        break;
      case 3:
        service.ofOwner.clear();
        break;
      case 4:
        if (!service.revokedKeys.delete(owner)) service.revokedKeys.add(owner);
        break;
      case 5:
        service.secretMatches = random.chance(0.7);
        break;
      case 6:
        service.profile = { ...drawProfile(random), timeoutMs: service.profile.timeoutMs };
        break;
    }
    if (this.#options.always) service.general = { fault: this.#options.always, share: 1 };
    this.trace(`faults change: ${service.general.fault} ${service.general.share}, secret ${service.secretMatches}`);
  }

  async #rareEvent(): Promise<void> {
    const random = this.#random;
    const drawn = random.below(20);
    await this.#becomeQuiet();
    if (drawn < 7) {
      const ms = (random.chance(0.5) ? 1 : -1) * random.pick([50, 1_000, 60_000, 3_600_000, 86_400_000]);
      this.trace(`the wall clock jumps by ${ms} ms`);
      this.clock.shiftWall(ms);
    } else if (drawn < 12) {
      const ms = random.span(1_000, 86_400_000);
      this.trace(`the machine sleeps for ${ms} ms`);
      this.clock.shiftWall(ms);
      this.#sleptMs += ms;
    } else if (drawn < 14) this.#closeOne();
    else if (drawn < 16) this.#warmUpOne();
    else {
      const used = random.pick(this.#inUse) as { token: AccessToken } | undefined;
      if (used) for (const service of this.#services) service.revoke(used.token.value);
    }
  }

  // Registries.

  #addRegistry(): void {
    const random = this.#random;
    const service = random.pick(this.#services);
    const drawn = drawOptions(random, this.#keys.length, service.profile);
    const oracle: Oracle = new Oracle(this, this.#registries++, this.#keys, drawn.watched);
    const parts = {
      source: service.sourceFor(() => oracle),
      ...{ clock: this.clock, random, oracle: () => oracle },
      mischief: () => this.#callBack(oracle),
    };
    this.trace(`registry ${oracle.index}: ${JSON.stringify({ ...drawn.watched, hooks: drawn.hooks })}`);
    oracle.watch(new OwnerTokenRegistry(optionsFor(drawn, parts)));
    this.#oracles.push(oracle);
    this.#serviceOf.set(oracle, service);
  }

  #closeOne(): void {
    const random = this.#random;
    const oracle = random.pick(this.#oracles);
    this.#close(oracle, random.pick([0, 1_000, 5_000]));
    if (random.chance(0.3)) this.#close(oracle, 0);
    if (random.chance(0.8) || this.#oracles.every(({ closed }) => closed)) this.#addRegistry();
  }

  #close(oracle: Oracle, timeoutMs: number): void {
    if (oracle.closed) return;
    this.trace(`close ${oracle.index}`);
    this.#closing++;
    for (const call of oracle.pending) this.#open.push(call);
    oracle.close(timeoutMs).then(
      () => this.#closed(oracle),
      () => this.broken('close rejected'),
    );
    this.#serviceOf.get(oracle)?.breakOff(oracle);
  }

  #closed(oracle: Oracle): void {
    this.#closing--;
    // Requests that ignore their signal may be left: the world keeps the oracle until they end, to check that they change nothing.
    if (this.#oracles.length > 1 && oracle.inFlight === 0) {
      this.#oracles.splice(this.#oracles.indexOf(oracle), 1);
    }
  }

  #warmUpOne(): void {
    const oracle = this.#random.pick(this.#oracles);
    const controller = new AbortController();
    this.trace(`warm up ${oracle.index}`);
    this.#warming++;
    const over = () => {
      this.#warming--;
    };
    oracle.warmUp(controller.signal).then(over, over);
    if (this.#random.chance(0.3)) controller.abort(new Error('enough'));
  }

  /** What a hook does that calls back into the registry. */
  #callBack(oracle: Oracle): void {
    if (this.#mischiefDepth > 2) return;
    this.#mischiefDepth++;
    const random = this.#random;
    const owner = random.below(this.#keys.length);
    const drawn = random.below(8);
    this.trace(`a hook of ${oracle.index} calls back: ${drawn} for ${owner}`);
    if (drawn < 3) oracle.call(owner);
    else if (drawn === 3) oracle.forget(owner);
    else if (drawn === 4) oracle.resume();
    else if (drawn === 5 && this.#inUse.length > 0) {
      const used = random.pick(this.#inUse);
      used.oracle.reject(used.owner, used.token);
    } else if (drawn === 6) oracle.look(owner);
    else if (drawn === 7 && random.chance(0.05)) this.#close(oracle, 0);
    this.#mischiefDepth--;
  }

  // The end.

  /** All faults end: every owner must get a token within bounded time, and everything must come to rest. */
  async #recover(): Promise<void> {
    this.step++;
    await this.#becomeQuiet();
    this.trace('all faults end');
    for (const service of this.#services) service.cure();
    await this.#landAll();
    for (const oracle of [...this.#oracles]) await this.#comesToLife(oracle);
    for (const oracle of [...this.#oracles]) this.#close(oracle, 1_000);
    await this.#becomeQuiet();
    await this.#landAll();
    if (this.#closing > 0) this.broken('a close is not over');
    if (this.clock.pendingTimers > 0) this.broken('timers are left after close');
    if (this.#failure) throw this.#failure;
  }

  /** Every in-flight request ends, at its deadline at the latest. */
  async #landAll(): Promise<void> {
    await this.#becomeQuiet();
    for (let nextMs = this.#nextDueMs(); nextMs < Number.POSITIVE_INFINITY; nextMs = this.#nextDueMs()) {
      this.step++;
      await this.#timePassesTo(nextMs);
    }
  }

  async #comesToLife(oracle: Oracle): Promise<void> {
    const { maxQueueMs, timeoutMs } = oracle.options;
    const owners = this.#keys.length;
    const isEmptied = this.#random.chance(0.5);
    if (isEmptied) oracle.forgetAll();
    const sinceMs = this.clock.monotonicMs;
    // Each owner may have to wait for its own pause, for that of the endpoint and of the client, and for its turn.
    const boundMs = 3 * Math.max(3_600_000, oracle.options.longestPauseMs) + owners * (10 * maxQueueMs + timeoutMs);
    for (const owner of this.#keys.keys()) {
      while (!oracle.closed && !(await this.#obtains(oracle, owner))) {
        if (this.clock.monotonicMs - sinceMs > boundMs)
          this.broken(`owner ${owner} has no token long after all faults`);
        await this.#timePasses(oracle.waitMs(owner));
      }
    }
    await this.#landAll();
    if (oracle.closed) return;
    const { inFlight, queued, waiting, pauses } = oracle.registry.stats();
    if (inFlight + queued + waiting > 0)
      this.broken(`at rest: ${inFlight} in flight, ${queued} queued, ${waiting} wait`);
    // Where tokens are held, nobody may have had a reason to probe.
    if (isEmptied && (pauses.client || pauses.endpoint)) this.broken('at rest: a pause of all owners is left');
  }

  async #obtains(oracle: Oracle, owner: number): Promise<boolean> {
    this.step++;
    const call = oracle.call(owner);
    await this.#landAll();
    if (!call.over) this.broken('at the end a call did not settle');
    if (this.#failure) throw this.#failure;
    return call.token !== undefined;
  }

  get #isQuiet(): boolean {
    return this.#quietStep === this.step - 1;
  }

  #quietStep = 0;
}
