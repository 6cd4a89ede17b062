/**
 * One simulated world: a machine with two clocks, one or two token services, registries, owners, callers, and everything that
 * happens to them, drawn from one seed. A step is one action of a caller or one event of the world.
 */

import type { AccessToken } from '../../src/index.ts';
import { ManualClock, quiet } from '../helpers/manual-clock.ts';
import { Random } from '../helpers/random.ts';
import { Callers } from './callers.ts';
import { Emissions, MARK } from './emissions.ts';
import { FAULTS, type Fault } from './faults.ts';
import type { Call, WorldParts } from './observed.ts';
import { drawProfile } from './options-of-worlds.ts';
import type { Oracle } from './oracle.ts';
import { Registries } from './registries.ts';
import { type Asked, ServiceModel } from './service.ts';

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

const MAX_REGISTRIES = 3;
const MAX_IN_USE = 16;
/** More events at one moment are a loop. */
const MOST_AT_ONCE = 10_000;
/** After a standstill, what was under way is asked for again. */
const AFTER_STANDSTILL_MS = 40_000;

export class World implements WorldParts {
  step = 0;
  readonly clock = new ManualClock();
  excusedMs = 0;
  readonly emissions = new Emissions((what) => this.broken(what));
  readonly random: Random;
  readonly keys: readonly string[];
  readonly services: readonly ServiceModel[];
  readonly inUse: WorldParts['inUse'] = [];
  readonly mustSettle: Call[] = [];
  readonly #options: WorldOptions;
  readonly #registries = new Registries(this);
  readonly #callers: Callers;
  /** Whether the clocks have fractions of milliseconds, as real ones do. */
  readonly #hasFractions: boolean;
  /** The time that the machine slept in all. */
  #sleptMs = 0;
  /** The last step after which nothing was left to run. */
  #quietStep = 0;
  #failure: Broken | undefined;

  constructor(options: WorldOptions) {
    this.#options = options;
    this.random = new Random(options.seed);
    const { random } = this;
    const owners = random.pick([1, 2, 3, 4, 6, 8, 12, 24, 60]);
    // Owners are new one after another, or all of them from the beginning.
    const hasNewcomers = owners >= 12 && random.chance(0.5);
    this.#callers = new Callers(this, this.#registries, hasNewcomers ? options.steps : undefined);
    this.keys = Array.from({ length: owners }, (_, owner) => keyOf(owner));
    this.#hasFractions = random.chance(0.3);
    const realMs = () => this.clock.monotonicMs + this.#sleptMs;
    const services = random.chance(0.7) ? 1 : 2;
    this.services = Array.from(
      { length: services },
      () => new ServiceModel(drawProfile(random), random, this.clock, realMs),
    );
    const registries = 1 + random.below(MAX_REGISTRIES);
    for (let index = 0; index < registries; index++) this.#registries.add();
    if (options.always) for (const service of this.services) service.general = { fault: options.always, share: 1 };
  }

  /** Runs all steps, ends every fault, and checks that everything recovers. */
  async run(): Promise<number> {
    const stopHearing = this.random.chance(0.2) ? this.emissions.hearChannels(() => {}) : undefined;
    try {
      while (this.step < this.#options.steps) await this.#next();
      await this.#recover();
      return this.step;
    } finally {
      stopHearing?.();
    }
  }

  get isQuiet(): boolean {
    return this.#quietStep === this.step - 1;
  }

  broken(what: string): void {
    // Thrown inside the library, it would look like a failure of the source; so it is noted and thrown outside.
    this.#failure ??= new Broken(`step ${this.step}: ${what}`);
  }

  delivered(oracle: Oracle, owner: number, token: AccessToken): void {
    const before = this.inUse[0];
    if (before && this.inUse.length < MAX_IN_USE) this.inUse.push(before);
    else if (before) this.inUse[1 + this.random.below(MAX_IN_USE - 1)] = before;
    this.inUse[0] = { oracle, owner, token };
  }

  // Steps.

  async #next(): Promise<void> {
    this.step++;
    const random = this.random;
    const drawn = random.next();
    let settles = true;
    if (drawn < 0.5) settles = this.#callers.act(drawn / 0.5);
    else if (drawn < 0.72) settles = this.#serviceAnswers();
    else if (drawn < 0.935)
      await this.#timePasses(random.chance(0.9) ? random.span(1, 3_000) : random.span(1_000, 4_000_000));
    else if (drawn < 0.975) this.#faultsChange();
    else await this.#rareEvent();
    await this.#afterStep(settles);
  }

  /** Usually runs everything that is ready; now and then the next step interrupts it. */
  async #afterStep(settles: boolean): Promise<void> {
    if (!settles && this.random.chance(0.5)) {
      for (let ticks = this.random.below(4); ticks > 0; ticks--) await Promise.resolve();
      if (this.#failure) throw this.#failure;
      return;
    }
    await this.#becomeQuiet();
  }

  async #becomeQuiet(): Promise<void> {
    await quiet();
    const { oracles, closing, warming } = this.#registries;
    for (const oracle of oracles) oracle.checkQuiet();
    for (const call of this.mustSettle) if (!call.over) this.broken('a call that must settle at once has not');
    this.mustSettle.length = 0;
    const own = oracles.reduce((sum, { mostTimers }) => sum + mostTimers, 0);
    const timers = own + closing + warming * this.keys.length;
    if (this.clock.pendingTimers > timers) this.broken(`${this.clock.pendingTimers} timers, ${timers} at most`);
    if (this.#failure) throw this.#failure;
    this.#quietStep = this.step;
  }

  trace(line: string): void {
    this.#options.trace?.(`${this.step} @${this.clock.monotonicMs} ${line}`);
  }

  #serviceAnswers(): boolean {
    const service = this.random.pick(this.services);
    if (service.asked.length === 0) return true;
    this.#answer(service, this.random.below(service.asked.length));
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
    await this.#timePassesTo(this.clock.monotonicMs + ms + (this.#hasFractions ? this.random.next() : 0));
  }

  async #timePassesTo(endMs: number): Promise<void> {
    let atOnce = 0;
    for (;;) {
      const nextMs = this.#nextDueMs();
      if (nextMs > endMs) break;
      if (nextMs > this.clock.monotonicMs) atOnce = 0;
      else if (++atOnce > MOST_AT_ONCE) this.broken('timers without end');
      this.clock.moveTo(nextMs);
      this.#runDue();
      this.step++;
      await this.#becomeQuiet();
    }
    this.clock.moveTo(endMs);
  }

  #nextDueMs(): number {
    let firstMs = this.clock.nextDueMs;
    for (const service of this.services) firstMs = Math.min(firstMs, service.nextDueMs);
    return firstMs;
  }

  #runDue(): void {
    if (this.clock.runNext()) {
      this.trace('a timer');
      return;
    }
    const nowMs = this.clock.monotonicMs;
    for (const service of this.services) {
      const index = service.asked.findIndex(({ dueMs, deadlineMs }) => dueMs <= nowMs || deadlineMs <= nowMs);
      if (index >= 0) {
        this.#answer(service, index);
        return;
      }
    }
  }

  #faultsChange(): void {
    const random = this.random;
    const service = random.pick(this.services);
    const owner = random.below(this.keys.length);
    switch (random.below(9)) {
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
      case 7:
        service.refusedShare = random.pick([0, 0.1, 0.5, 1]);
        break;
      case 8:
        service.sinceMove = random.pick(['reset', 'unreached', 'hang']);
        break;
    }
    if (this.#options.always) service.general = { fault: this.#options.always, share: 1 };
    const { general, secretMatches, refusedShare, sinceMove } = service;
    this.trace(
      `faults change: ${general.fault} ${general.share}, secret ${secretMatches}, API refuses ${refusedShare}, connections ${sinceMove}`,
    );
  }

  async #rareEvent(): Promise<void> {
    const random = this.random;
    const drawn = random.below(20);
    await this.#becomeQuiet();
    if (drawn < 7) {
      const ms = (random.chance(0.5) ? 1 : -1) * random.pick([50, 1_000, 60_000, 3_600_000, 86_400_000]);
      this.trace(`the wall clock jumps by ${ms} ms`);
      this.clock.jumpWall(ms);
    } else if (drawn === 7) {
      const ms = random.span(1_000, 600_000);
      this.trace(`the process stands still for ${ms} ms`);
      this.clock.standStill(ms);
      this.excusedMs += ms + AFTER_STANDSTILL_MS;
    } else if (drawn < 12) {
      const ms = random.span(1_000, 86_400_000);
      this.trace(`the machine sleeps for ${ms} ms`);
      this.clock.jumpWall(ms);
      this.#sleptMs += ms;
    } else if (drawn < 14) this.#registries.closeOne();
    else if (drawn < 16) this.#registries.warmUpOne();
    else {
      const used = random.pick(this.inUse) as { token: AccessToken } | undefined;
      if (used) for (const service of this.services) service.revoke(used.token.value);
    }
  }

  // The end.

  /** All faults end: every owner must get a token within bounded time, and everything must come to rest. */
  async #recover(): Promise<void> {
    this.step++;
    await this.#becomeQuiet();
    this.trace('all faults end');
    for (const service of this.services) service.cure();
    await this.#landAll();
    for (const oracle of [...this.#registries.oracles]) await this.#comesToLife(oracle);
    for (const oracle of [...this.#registries.oracles]) this.#registries.close(oracle, 1_000);
    await this.#becomeQuiet();
    await this.#landAll();
    if (this.#registries.closing > 0) this.broken('a close is not over');
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
    const owners = this.keys.length;
    const isEmptied = this.random.chance(0.5);
    if (isEmptied) oracle.forgetAll();
    const sinceMs = this.clock.monotonicMs;
    // Each owner may have to wait for its own pause, for that of the endpoint and of the client, and for its turn.
    const boundMs = 3 * Math.max(3_600_000, oracle.options.longestPauseMs) + owners * (10 * maxQueueMs + timeoutMs);
    for (const owner of this.keys.keys()) {
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
}
