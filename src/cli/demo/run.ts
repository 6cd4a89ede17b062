/**
 * What the demo runs: a small integrator's backend against the sandbox, over real HTTP. The registry shares the sandbox's
 * virtual clock, so that hours pass at once on both sides.
 */

import { OwnerTokenError, OwnerTokenRegistry, TokenEndpoint } from '../../index.ts';
import { type Sandbox, startSandbox } from '../../sandbox/index.ts';

/** One phase of the demo. */
export interface PhaseResult {
  readonly name: string;
  /** Calls that needed a token: a backend without a registry would have sent one request for each. */
  readonly calls: number;
  /** Token requests that the service received. */
  readonly tokenRequests: number;
}

export interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly found: string;
}

export interface DemoResult {
  readonly owners: number;
  readonly phases: readonly PhaseResult[];
  /** How long each call waited for its token, in milliseconds. */
  readonly waitsMs: readonly number[];
  /** The outcome of each owner's last call. */
  readonly ownerStates: readonly OwnerOutcome[];
  readonly wrongOwner: number;
  readonly seconds: number;
  readonly checks: readonly Check[];
}

export type OwnerOutcome = 'served' | 'refused' | 'wrong';

/** Reports the progress of the current phase. */
export type Progress = (phase: string, done: number, total: number) => void;

const OWNERS = 200;
const LIFETIME_SECONDS = 3600;
const MINUTE_MS = 60_000;
const REVOKED_TOKENS = 40;

/** Runs all phases and checks the numbers that the service counted. */
export async function runDemo(progress: Progress, signal: AbortSignal): Promise<DemoResult> {
  const startedMs = performance.now();
  await using sandbox = await startSandbox({ owners: OWNERS, lifetimeSeconds: LIFETIME_SECONDS });
  await using registry = new OwnerTokenRegistry({
    source: new TokenEndpoint({
      baseUrl: sandbox.url,
      clientId: sandbox.clientId,
      clientSecret: () => sandbox.clientSecret,
      clock: sandbox.clock,
    }),
    clock: sandbox.clock,
  });
  const traffic = new Traffic(sandbox, registry, progress, signal);

  const cold = await traffic.phase('cold start', () => traffic.callAll(50));
  const hour = await traffic.phase('an hour of traffic', async () => {
    for (let step = 0; step < 10; step++) {
      sandbox.clock.advance(6 * MINUTE_MS);
      await traffic.callAll(5);
      await traffic.settle();
    }
  });
  const expired = await traffic.phase('all tokens expired', () => {
    sandbox.clock.advance(180 * MINUTE_MS);
    return traffic.callAll(20);
  });
  const revoked = await traffic.phase('40 tokens revoked', async () => {
    for (const { accessKey } of sandbox.owners.slice(0, REVOKED_TOKENS)) {
      sandbox.revokeToken((await registry.getToken(accessKey)).value);
    }
    await traffic.echoAll(5);
  });
  const removedKey = sandbox.owners[OWNERS - 1]?.accessKey ?? '';
  const removed = await traffic.phase('one owner leaves', async () => {
    sandbox.revokeAccessKey(removedKey);
    await traffic.echoAll(5, removedKey);
  });

  const refused = registry.describe(removedKey);
  const { wrongOwner, failures, removedRefusals, waitsMs } = traffic;
  const { wasted } = sandbox.ledger;
  return {
    owners: OWNERS,
    phases: traffic.phases,
    waitsMs,
    ownerStates: traffic.ownerStates(removedKey),
    wrongOwner,
    seconds: (performance.now() - startedMs) / 1000,
    checks: [
      check('no call received a token of another owner', wrongOwner === 0, `${wrongOwner} wrong`),
      check('no calls failed for the remaining owners', failures.length === 0, failures[0] ?? '0 failures'),
      exactly('a cold start costs one request per owner', cold, OWNERS),
      check('an hour of traffic costs at most one refresh per owner', hour.tokenRequests <= OWNERS, ratio(hour)),
      exactly('expiry of all tokens costs one request per owner', expired, OWNERS),
      exactly('each revoked token costs one request', revoked, REVOKED_TOKENS),
      check('a removed owner costs at most two requests', removed.tokenRequests <= 2, ratio(removed)),
      check('only the removed owner is refused', removedRefusals === 5, `${removedRefusals} of 5: ${refused.code}`),
      check('no request was wasted', wasted === 0, `${wasted} while the owner had a valid token`),
    ],
  };
}

const ratio = ({ tokenRequests, calls }: PhaseResult) =>
  `${tokenRequests} ${tokenRequests === 1 ? 'request' : 'requests'} for ${calls.toLocaleString('en-US')} calls`;
const check = (name: string, ok: boolean, found: string): Check => ({ name, ok, found });
const exactly = (name: string, phase: PhaseResult, count: number) =>
  check(name, phase.tokenRequests === count, ratio(phase));

/** Sends the calls of each phase and records their outcomes. */
class Traffic {
  readonly phases: PhaseResult[] = [];
  readonly waitsMs: number[] = [];
  readonly failures: string[] = [];
  wrongOwner = 0;
  removedRefusals = 0;
  readonly #sandbox: Sandbox;
  readonly #registry: OwnerTokenRegistry;
  readonly #progress: Progress;
  readonly #signal: AbortSignal;
  readonly #lastOutcome = new Map<string, OwnerOutcome>();
  #name = '';
  #started = 0;
  #done = 0;

  constructor(sandbox: Sandbox, registry: OwnerTokenRegistry, progress: Progress, signal: AbortSignal) {
    this.#sandbox = sandbox;
    this.#registry = registry;
    this.#progress = progress;
    this.#signal = signal;
  }

  async phase(name: string, run: () => Promise<void>): Promise<PhaseResult> {
    this.#name = name;
    this.#started = 0;
    this.#done = 0;
    const before = this.#sandbox.ledger.count({ kind: 'token' });
    await run();
    await this.settle();
    const tokenRequests = this.#sandbox.ledger.count({ kind: 'token' }) - before;
    const result = { name, calls: this.#started, tokenRequests };
    this.phases.push(result);
    return result;
  }

  /** Makes `times` concurrent calls per owner. The last one uses its token on the echo resource. */
  async callAll(times: number): Promise<void> {
    const calls = this.#sandbox.owners.flatMap(({ accessKey }) =>
      Array.from({ length: times - 1 }, () => () => this.#call(accessKey)),
    );
    await Promise.all(calls.map((call) => call()));
    await this.echoAll(1);
  }

  /** Makes `times` calls per owner to the echo resource, which names the owner of the token. */
  async echoAll(times: number, removedKey?: string): Promise<void> {
    const calls = this.#sandbox.owners.flatMap(({ accessKey, id }) => {
      const echo = this.#registry.ownerFetch(accessKey);
      return Array.from({ length: times }, () => () => this.#echo(echo, accessKey, id, accessKey === removedKey));
    });
    await Promise.all(calls.map((call) => call()));
  }

  /** Waits for background refreshes to finish. */
  async settle(): Promise<void> {
    while (this.#registry.stats().inFlight > 0) await new Promise((resolve) => setImmediate(resolve));
  }

  ownerStates(removedKey: string): OwnerOutcome[] {
    const keys = [...this.#lastOutcome.keys()].filter((accessKey) => accessKey !== removedKey);
    return [...keys, removedKey].map((accessKey) => this.#lastOutcome.get(accessKey) ?? 'wrong');
  }

  async #call(accessKey: string): Promise<void> {
    this.#start();
    const startedMs = performance.now();
    try {
      await this.#registry.getToken(accessKey);
      this.waitsMs.push(performance.now() - startedMs);
    } catch (error) {
      this.failures.push(codeOf(error));
    }
    this.#finish();
  }

  async #echo(echo: typeof fetch, accessKey: string, id: string, isRemoved: boolean): Promise<void> {
    this.#start();
    try {
      const response = await echo(`${this.#sandbox.url}/echo`);
      const { owner } = (await response.json()) as { owner?: string };
      const isRefused = response.status === 401;
      if (response.ok && owner !== id) this.wrongOwner++;
      if (isRemoved && isRefused) this.removedRefusals++;
      else if (!response.ok) this.failures.push(`HTTP ${response.status}`);
      this.#lastOutcome.set(accessKey, owner === id ? 'served' : isRefused ? 'refused' : 'wrong');
    } catch (error) {
      this.#lastOutcome.set(accessKey, 'refused');
      this.failures.push(codeOf(error));
    }
    this.#finish();
  }

  #start(): void {
    this.#signal.throwIfAborted();
    this.#started++;
  }

  #finish(): void {
    this.#done++;
    this.#progress(this.#name, this.#done, this.#started);
  }
}

const codeOf = (error: unknown) => (error instanceof OwnerTokenError ? error.code : 'unexpected error');
