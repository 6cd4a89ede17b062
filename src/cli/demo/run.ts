/**
 * What the demo does: an integrator's backend in small, against the sandbox over real HTTP. Time is the sandbox's own,
 * handed to the registry too, so that hours pass in a moment for both sides.
 */

import { OwnerTokenError, OwnerTokenRegistry, TokenEndpoint } from '../../index.ts';
import { type Sandbox, startSandbox } from '../../sandbox/index.ts';

/** One part of the demo, as it went. */
export interface PhaseResult {
  readonly name: string;
  /** Calls that wanted a token: what a backend without a registry would have asked the service. */
  readonly calls: number;
  /** Token requests that the service counted. */
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
  /** Milliseconds that each call for a token waited. */
  readonly waitsMs: readonly number[];
  /** What became of each owner in the last phase. */
  readonly ownerStates: readonly OwnerOutcome[];
  readonly wrongOwner: number;
  readonly seconds: number;
  readonly checks: readonly Check[];
}

export type OwnerOutcome = 'served' | 'refused' | 'wrong';

/** How far the phase under way has come. */
export type Progress = (phase: string, done: number, of: number) => void;

const OWNERS = 200;
const LIFETIME_SECONDS = 3600;
const MINUTE_MS = 60_000;
const REVOKED_TOKENS = 40;

/** Runs all phases and checks what the service counted. */
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
      await traffic.quiet();
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
  const leaver = sandbox.owners[OWNERS - 1]?.accessKey ?? '';
  const left = await traffic.phase('one customer leaves', async () => {
    sandbox.revokeAccessKey(leaver);
    await traffic.echoAll(5, leaver);
  });

  const refused = registry.describe(leaver);
  const { wrongOwner, failures, leaverFailures, waitsMs } = traffic;
  const { wasted } = sandbox.ledger;
  return {
    owners: OWNERS,
    phases: traffic.phases,
    waitsMs,
    ownerStates: traffic.ownerStates(leaver),
    wrongOwner,
    seconds: (performance.now() - startedMs) / 1000,
    checks: [
      check('no call was answered for another owner', wrongOwner === 0, `${wrongOwner} wrong`),
      check('no call of a customer who is there failed', failures.length === 0, failures[0] ?? 'none failed'),
      exactly('a cold start costs one request an owner', cold, OWNERS),
      check('an hour of traffic costs one refresh an owner', hour.tokenRequests <= OWNERS, asked(hour)),
      exactly('expired tokens are requested once an owner', expired, OWNERS),
      exactly('revoked tokens are requested once each', revoked, REVOKED_TOKENS),
      check('who has left is asked for once, then refused at once', left.tokenRequests <= 2, asked(left)),
      check(
        'who has left is refused alone, and by name',
        leaverFailures === 5,
        `${leaverFailures} of 5: ${refused.code}`,
      ),
      check('no request was wasted', wasted === 0, `${wasted} for owners with a good token`),
    ],
  };
}

const asked = (phase: PhaseResult) => `${phase.tokenRequests} requests for ${phase.calls} calls`;
const check = (name: string, ok: boolean, found: string): Check => ({ name, ok, found });
const exactly = (name: string, phase: PhaseResult, count: number) =>
  check(name, phase.tokenRequests === count, asked(phase));

/** The callers, and what they met with. */
class Traffic {
  readonly phases: PhaseResult[] = [];
  readonly waitsMs: number[] = [];
  readonly failures: string[] = [];
  wrongOwner = 0;
  leaverFailures = 0;
  readonly #sandbox: Sandbox;
  readonly #registry: OwnerTokenRegistry;
  readonly #progress: Progress;
  readonly #signal: AbortSignal;
  readonly #lastOutcome = new Map<string, OwnerOutcome>();
  #name = '';
  #begun = 0;
  #done = 0;

  constructor(sandbox: Sandbox, registry: OwnerTokenRegistry, progress: Progress, signal: AbortSignal) {
    this.#sandbox = sandbox;
    this.#registry = registry;
    this.#progress = progress;
    this.#signal = signal;
  }

  async phase(name: string, run: () => Promise<void>): Promise<PhaseResult> {
    this.#name = name;
    this.#begun = 0;
    this.#done = 0;
    const before = this.#sandbox.ledger.count({ kind: 'token' });
    await run();
    await this.quiet();
    const tokenRequests = this.#sandbox.ledger.count({ kind: 'token' }) - before;
    const result = { name, calls: this.#begun, tokenRequests };
    this.phases.push(result);
    return result;
  }

  /** So many concurrent calls for each owner's token, the last of them to call the echo resource with it. */
  async callAll(times: number): Promise<void> {
    const calls = this.#sandbox.owners.flatMap(({ accessKey }) =>
      Array.from({ length: times - 1 }, () => () => this.#call(accessKey)),
    );
    await Promise.all(calls.map((call) => call()));
    await this.echoAll(1);
  }

  /** So many calls to the echo resource for each owner, which tells whose token it was given. */
  async echoAll(times: number, leaver?: string): Promise<void> {
    const calls = this.#sandbox.owners.flatMap(({ accessKey, id }) => {
      const echo = this.#registry.ownerFetch(accessKey);
      return Array.from({ length: times }, () => () => this.#echo(echo, accessKey, id, accessKey === leaver));
    });
    await Promise.all(calls.map((call) => call()));
  }

  /** Background refreshes are over. */
  async quiet(): Promise<void> {
    while (this.#registry.stats().inFlight > 0) await new Promise((resolve) => setImmediate(resolve));
  }

  ownerStates(leaver: string): OwnerOutcome[] {
    const keys = [...this.#lastOutcome.keys()].filter((accessKey) => accessKey !== leaver);
    return [...keys, leaver].map((accessKey) => this.#lastOutcome.get(accessKey) ?? 'wrong');
  }

  async #call(accessKey: string): Promise<void> {
    this.#begin();
    const startedMs = performance.now();
    try {
      await this.#registry.getToken(accessKey);
      this.waitsMs.push(performance.now() - startedMs);
    } catch (error) {
      this.failures.push(codeOf(error));
    }
    this.#end();
  }

  async #echo(echo: typeof fetch, accessKey: string, id: string, isLeaver: boolean): Promise<void> {
    this.#begin();
    try {
      const response = await echo(`${this.#sandbox.url}/echo`);
      const { owner } = (await response.json()) as { owner?: string };
      if (response.ok && owner !== id) this.wrongOwner++;
      if (!response.ok) this.failures.push(`HTTP ${response.status}`);
      this.#lastOutcome.set(accessKey, owner === id ? 'served' : 'wrong');
    } catch (error) {
      this.#lastOutcome.set(accessKey, 'refused');
      if (isLeaver) this.leaverFailures++;
      else this.failures.push(codeOf(error));
    }
    this.#end();
  }

  #begin(): void {
    this.#signal.throwIfAborted();
    this.#begun++;
  }

  #end(): void {
    this.#done++;
    this.#progress(this.#name, this.#done, this.#begun);
  }
}

const codeOf = (error: unknown) => (error instanceof OwnerTokenError ? error.code : 'a call failed');
