import { afterEach, describe, expect, it, type MockInstance, vi } from 'vitest';
import { Diagnostics } from '../../src/diagnostics.ts';
import { OwnerTokenError } from '../../src/errors.ts';
import { fixedLifetime } from '../../src/expiry/policies.ts';
import type { Permit } from '../../src/failures/circuit-breaker.ts';
import { FailureScopes, HUNG_AFTER_MS } from '../../src/failures/failure-scopes.ts';
import { SLICE } from '../../src/registry/dispatch.ts';
import { Flights } from '../../src/registry/flights.ts';
import { type OwnerTokenRegistryOptions, registrySettings } from '../../src/registry/options.ts';
import { OwnerTable } from '../../src/registry/owner-table.ts';
import { denied, failed, rejected, type Slot } from '../../src/registry/slot.ts';
import type { AccessToken, IssuedToken, RequestPermit, TokenRequest } from '../../src/token.ts';
import { at } from '../helpers/instants.ts';
import { shortNames } from '../helpers/log-lines.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { keys } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';
import { createProvenSlot, createSlot } from '../helpers/slots.ts';

const RANGE = { baseMs: 1_000, capMs: 60_000 };

/** Flights on a manual clock before a source that does what the test says, with all that was logged. */
class Stage {
  readonly clock = new ManualClock();
  readonly source = new ScriptedSource();
  readonly logged: object[] = [];
  readonly owners: OwnerTable;
  readonly failures: FailureScopes;
  readonly flights: Flights;
  readonly names: { ofToken(token: string): string };
  readonly #store: MockInstance<OwnerTable['store']>;

  constructor(options: Partial<OwnerTokenRegistryOptions> = {}) {
    const { clock, source } = this;
    const log = (fields: object) => this.logged.push(shortNames(fields));
    const settings = registrySettings({
      ...{ source, clock, expiry: fixedLifetime(100_000), random: () => 0.5 },
      ...{ concurrency: 2, maxQueued: 10, maxQueueMs: 5_000 },
      pauses: { owner: RANGE, client: RANGE, endpoint: RANGE },
      ...options,
    });
    const { pauses: ranges } = settings;
    const logger = { debug: log, info: log, warn: log };
    const diagnostics = new Diagnostics(logger, { registry: 'test', host: undefined, now: () => settings.time.now() });
    this.names = settings.fingerprints;
    this.owners = new OwnerTable(1_000, diagnostics);
    this.#store = vi.spyOn(this.owners, 'store');
    this.failures = new FailureScopes({ ...settings, ranges });
    this.flights = new Flights(settings, this.owners, this.failures, diagnostics);
  }

  /** Begins a request and gives its slot with what comes of it: a token's value, or an error's code. */
  begin(accessKey: string, slot: Slot = createSlot(`owner_${accessKey}`), signal?: AbortSignal) {
    return { slot, outcome: outcomeOf(this.flights.begin(accessKey, slot, signal)) };
  }

  /** Begins a request, and resolves when the source has it unless it is queued. */
  async send(accessKey: string, slot?: Slot, signal?: AbortSignal) {
    const begun = this.begin(accessKey, slot, signal);
    await settle();
    return begun;
  }

  /** Answers the n-th request with a token, and resolves when all that follows from it has happened. */
  async answer(index: number, issued?: Partial<IssuedToken>): Promise<void> {
    this.source.call(index).succeed(issued);
    await settle();
  }

  /** Fails the n-th request, and resolves when all that follows from it has happened. */
  async fail(index: number, error: unknown): Promise<void> {
    this.source.call(index).fail(error);
    await settle();
  }

  /** Joins the owner's in-flight request. */
  join(accessKey: string, signal?: AbortSignal): Promise<string> {
    const flight = this.owners.flightOf(accessKey);
    if (!flight) throw new Error(`nothing is in flight for ${accessKey}`);
    return outcomeOf(this.flights.join(flight, signal));
  }

  isRequesting(accessKey: string): boolean {
    return this.owners.flightOf(accessKey) !== undefined;
  }

  forget(accessKey: string): void {
    const flight = this.owners.flightOf(accessKey);
    if (flight) this.flights.detach(flight);
    this.owners.forget(accessKey);
  }

  /** Those of the owners a to d whose requests can be joined. */
  get requesting(): string[] {
    return ['a', 'b', 'c', 'd'].filter((accessKey) => this.isRequesting(accessKey));
  }

  get numbers() {
    const { inFlight, queued, waiting } = this.flights;
    return { inFlight, queued, waiting };
  }

  /** The owners whose slots are stored, whether or not a request is in flight. */
  get stored(): string[] {
    const stored = this.#store.mock.calls.map(([slot]) => slot);
    return [...new Set(stored)].filter(({ accessKey }) => this.owners.peek(accessKey)).map(({ owner }) => owner);
  }

  /** The events logged since the last look. */
  get events(): unknown[] {
    return this.logged.splice(0).map((fields) => (fields as { event: unknown }).event);
  }
}

const outcomeOf = (promise: Promise<AccessToken>): Promise<string> =>
  promise.then(
    (token) => token.value,
    (error) => error.code ?? error,
  );

const down = new OwnerTokenError('endpoint_unavailable', 'it is down', { failureScope: 'endpoint' });

/** A failure that may be the service's or the owner's doing. */
const ambiguous = new OwnerTokenError('endpoint_unavailable', 'it timed out');

/** A request outside the table fails, and opens the endpoint's circuit. */
function openCircuit(failures: FailureScopes): void {
  const permit = failures.admit(0, 'new', 1) as Permit;
  const at = { nowMs: 0, sentAtMs: 0, resends: 0, isOnlyRequest: true };
  failures.failed({ permit, error: down, owner: 'elsewhere', ownerFailures: 0, ...at });
}

const NOTHING = { inFlight: 0, queued: 0, waiting: 0 };

let stage: Stage;
afterEach(async () => {
  // Whatever became of them, none is left, and no timer either.
  for (const call of stage.source.calls) if (!call.settled) call.fail(new Error('the test is over'));
  await settle();
  expect(stage.numbers).toEqual(NOTHING);
  expect(stage.clock.pendingTimers).toBe(0);
});

/** A stage in which ten tokens were issued, which pay for one retry. Gives the number of the next request. */
async function stageWithBudget(): Promise<number> {
  stage = new Stage();
  stage.source.script((call) => call.succeed());
  for (let count = 0; count < 10; count++) await stage.begin(`paying ${count}`).outcome;
  stage.source.script(undefined);
  stage.logged.length = 0;
  return stage.source.calls.length;
}

describe('a request', () => {
  it('brings a token to all who wait, and is kept', async () => {
    stage = new Stage();
    const { slot, outcome } = stage.begin('a');
    expect([stage.isRequesting('a'), stage.isRequesting('b')]).toEqual([true, false]);
    expect(stage.owners.peek('a')).toBe(slot);
    const joined = stage.join('a');
    await settle();
    expect(stage.numbers).toEqual({ inFlight: 1, queued: 0, waiting: 2 });
    expect([stage.isRequesting('a'), stage.isRequesting('b')]).toEqual([true, false]);
    stage.source.call(0).succeed();
    expect([await outcome, await joined]).toEqual(['token-1-of-a', 'token-1-of-a']);
    expect(slot.held?.value).toBe('token-1-of-a');
    expect(stage.stored).toEqual(['owner_a']);
    expect(stage.flights.counts).toEqual({ requests: 1, refreshes: 0, failures: 0 });
    expect(stage.events).toEqual(['request.sent', 'request.succeeded']);
    expect(stage.isRequesting('a')).toBe(false);
  });

  it('says why it is made, with what is held and what was refused last', async () => {
    stage = new Stage();
    const { slot } = await stage.send('a');
    expect(stage.source.call(0).request).toMatchObject({ reason: 'absent', signal: { aborted: false } });
    expect(stage.source.call(0).request).not.toHaveProperty('held');
    await stage.answer(0);
    const held = slot.held;
    stage.flights.refresh('a', slot);
    await settle();
    expect(stage.source.call(1).request).toMatchObject({ reason: 'refresh', held });
    expect(stage.flights.counts).toEqual({ requests: 2, refreshes: 1, failures: 0 });
    if (held) rejected(slot, held, at(0));
    const { outcome } = await stage.send('a', slot);
    expect(stage.source.call(2).request).toMatchObject({ reason: 'rejected', rejected: held });
    stage.source.call(2).succeed();
    expect(await outcome).toMatch(/^token-/);
  });

  it('tells a source that stores what the policy makes of a grant', async () => {
    stage = new Stage();
    await stage.send('a');
    const { request } = stage.source.call(0);
    expect(request.lifetimeMs({ token: 't' })).toBe(100_000);
    expect(() => request.lifetimeMs({ token: '' })).toThrow('no usable token');
  });

  it('that fails does so for all who wait; the owner pauses, and the failure is kept', async () => {
    stage = new Stage();
    const { slot, outcome } = stage.begin('a');
    const joined = stage.join('a');
    await settle();
    stage.source.call(0).fail(new Error('no'));
    expect([await outcome, await joined]).toEqual(['source_failed', 'source_failed']);
    expect(slot.trouble?.failure).toMatchObject({ count: 1, retryAtMonotonicMs: 750 });
    expect(stage.stored).toEqual(['owner_a']);
    expect(stage.flights.counts.failures).toBe(1);
    expect(stage.events).toEqual(['request.sent', 'request.failed', 'pause.began']);
    const { outcome: again } = await stage.send('a', slot);
    stage.source.call(1).fail(new Error('no'));
    expect(await again).toBe('source_failed');
    expect(slot.trouble?.failure?.count).toBe(2);
  });

  it('may fail by a source that throws at once, or gives nonsense', async () => {
    const requestToken = () => {
      throw new Error('no');
    };
    stage = new Stage({ source: { requestToken } });
    expect(await stage.begin('a').outcome).toBe('source_failed');
    stage = new Stage();
    stage.source.script((call) => call.succeed({ token: 'line\nbreak' }));
    expect(await stage.begin('b').outcome).toBe('invalid_response');
  });

  it('that was sent before the held token was rejected settles its callers, and is neither joined nor stored', async () => {
    stage = new Stage();
    const { slot, outcome } = await stage.send('a');
    stage.flights.rejected('a');
    expect(stage.isRequesting('a')).toBe(false);
    stage.source.call(0).succeed();
    expect(await outcome).toBe('token-1-of-a');
    expect([slot.held, stage.stored]).toEqual([undefined, []]);
  });

  it('that is only queued as the held token is rejected still serves', async () => {
    stage = new Stage({ concurrency: 1 });
    stage.begin('other');
    const { slot, outcome } = stage.begin('a');
    stage.flights.rejected('a');
    expect(stage.isRequesting('a')).toBe(true);
    await settle();
    await stage.answer(0);
    stage.source.call(1).succeed();
    expect(await outcome).toBe('token-2-of-a');
    expect(slot.held?.value).toBe('token-2-of-a');
  });

  it('that has settled is not detached by a rejection', () => {
    stage = new Stage();
    expect(() => stage.flights.rejected('a')).not.toThrow();
  });

  it('that was detached fails its callers, and its failure is not cached', async () => {
    stage = new Stage();
    const { slot, outcome } = await stage.send('a');
    stage.flights.rejected('a');
    stage.source.call(0).fail(new Error('no'));
    expect(await outcome).toBe('source_failed');
    expect(slot.trouble?.failure).toBeUndefined();
  });
});

describe('a source', () => {
  it('that does not settle in time fails its callers, is aborted, and leaves a permit to the next', async () => {
    stage = new Stage({ concurrency: 1, requestTimeoutMs: 2_000 });
    const waiting = stage.flights.begin('a', createSlot('owner_a'), undefined);
    const { outcome } = await stage.send('b');
    stage.clock.advance(2_000);
    await expect(waiting).rejects.toMatchObject({
      code: 'endpoint_unavailable',
      message: 'the token source did not settle within 2000 ms (requestTimeoutMs)',
    });
    expect(stage.source.call(0).request.signal.reason).toMatchObject({ name: 'TimeoutError' });
    await settle();
    stage.source.call(1).succeed();
    expect(await outcome).toBe('token-1-of-b');
  });

  it('that throws undefined fails its callers like any other failure', async () => {
    stage = new Stage();
    const { outcome } = await stage.send('a');
    await stage.fail(0, undefined);
    expect(await outcome).toBe('source_failed');
  });

  it('that throws an unreadable value fails its callers with a readable error', async () => {
    stage = new Stage();
    const waiting = stage.flights.begin('a', createSlot('owner_a'), undefined);
    await settle();
    const unreadable = new Proxy(down, {
      get: () => {
        throw new Error('no');
      },
    });
    stage.source.call(0).fail(unreadable);
    await expect(waiting).rejects.toMatchObject({
      ...{ code: 'source_failed', message: 'the token source threw a value that cannot be read' },
      ...{ owner: 'owner_a', failedAtMs: stage.clock.now() },
    });
  });
});

describe('a token that is known to be refused', () => {
  const begun = () => {
    stage = new Stage();
    const slot = createSlot('owner_a');
    denied(slot, stage.names.ofToken('refused'));
    return stage.begin('a', slot);
  };

  it('makes for one further request, which says so', async () => {
    const { slot, outcome } = begun();
    await settle();
    await stage.answer(0, { token: 'refused' });
    expect(stage.source.call(1).request.reason).toBe('rejected');
    expect(stage.events).toEqual(['request.sent', 'request.failed', 'request.sent']);
    stage.source.call(1).succeed({ token: 'another' });
    expect(await outcome).toBe('another');
    expect(slot.held?.value).toBe('another');
    expect(stage.flights.counts).toEqual({ requests: 2, refreshes: 0, failures: 0 });
  });

  it('that comes again fails the call, and pauses the owner', async () => {
    const { slot, outcome } = begun();
    await settle();
    for (const index of [0, 1]) {
      await stage.answer(index, { token: 'refused' });
    }
    expect(await outcome).toBe('token_rejected');
    expect(slot.trouble?.failure).toMatchObject({ count: 1, error: { code: 'token_rejected', owner: 'owner_a' } });
    expect(stage.source.calls).toHaveLength(2);
  });

  it('is not asked about once more when the registry has closed meanwhile', async () => {
    const { outcome } = begun();
    await settle();
    stage.source.call(0).succeed({ token: 'refused' });
    const closed = stage.flights.close(1_000);
    expect(await outcome).toBe('closed');
    expect(await closed).toBe(0);
    expect(stage.source.calls).toHaveLength(1);
  });
});

describe('a queued request', () => {
  it('begins when it is the first', async () => {
    stage = new Stage({ concurrency: 1 });
    stage.begin('a');
    const { outcome } = await stage.send('b');
    expect(stage.numbers).toEqual({ inFlight: 1, queued: 1, waiting: 2 });
    expect(stage.source.countFor('b')).toBe(0);
    await stage.answer(0);
    stage.source.call(1).succeed();
    expect(await outcome).toBe('token-2-of-b');
  });

  it('has no place in a full queue: its callers are told, a refresh is not made', async () => {
    stage = new Stage({ concurrency: 1, maxQueued: 1 });
    stage.begin('a');
    stage.begin('b');
    const { outcome } = stage.begin('c');
    expect(await outcome).toBe('queue_full');
    stage.flights.refresh('d', createSlot('owner_d'));
    expect(stage.requesting).toEqual(['a', 'b']);
    expect(stage.numbers).toEqual({ inFlight: 1, queued: 1, waiting: 2 });
    await settle();
    await stage.answer(0);
    expect(stage.source.calls.map(({ accessKey }) => accessKey)).toEqual(['a', 'b']);
  });

  it('takes the place of the oldest refresh in a full queue', async () => {
    stage = new Stage({ concurrency: 1, maxQueued: 2 });
    stage.begin('a');
    for (const key of ['b', 'c']) stage.flights.refresh(key, createSlot(`owner_${key}`));
    const { outcome } = stage.begin('d');
    expect(stage.requesting).toEqual(['a', 'c', 'd']);
    await settle();
    await stage.answer(0);
    stage.source.call(1).succeed();
    expect(await outcome).toBe('token-2-of-d');
  });

  it('of a newcomer starts as soon as the pace of newcomers lets it', async () => {
    stage = new Stage();
    stage.source.script((call) => (call.accessKey === 'good' ? call.succeed() : call.fail(ambiguous)));
    await stage.begin('good').outcome;
    await stage.begin('a').outcome;
    await settle();
    const { outcome } = stage.begin('b');
    stage.clock.advance(999);
    await settle();
    expect([stage.numbers.queued, stage.source.countFor('b')]).toEqual([1, 0]);
    stage.clock.advance(1);
    expect(await outcome).toBe('endpoint_unavailable');
  });

  it('waits no longer than the limit', async () => {
    stage = new Stage({ concurrency: 1, maxQueued: 20 });
    // Every 0.3 s one of them becomes slow, and the next one takes its permit.
    for (const key of keys(17)) stage.begin(key);
    const waiting = stage.flights.begin('b', createSlot('owner_b'), undefined);
    stage.clock.advance(5_000);
    await expect(waiting).rejects.toMatchObject({
      ...{ code: 'queue_timeout', owner: 'owner_b', failedAtMs: stage.clock.now() },
      message: expect.stringContaining('maxQueueMs'),
    });
    expect(stage.numbers).toEqual({ inFlight: 17, queued: 0, waiting: 17 });
    expect(stage.isRequesting('b')).toBe(false);
    await settle();
  });

  it('goes before refreshes once somebody waits for it', async () => {
    stage = new Stage({ concurrency: 1 });
    stage.begin('a');
    for (const key of ['b', 'c']) stage.flights.refresh(key, createSlot(`owner_${key}`));
    const outcome = stage.join('c');
    await settle();
    await stage.answer(0);
    stage.source.call(1).succeed();
    expect(await outcome).toBe('token-2-of-c');
  });

  it('is refused when a circuit opens while it is queued', async () => {
    stage = new Stage({ concurrency: 2 });
    const [a, b, c] = ['a', 'b', 'c'].map((key) => stage.begin(key));
    await settle();
    stage.source.call(0).fail(down);
    expect([await a?.outcome, await c?.outcome]).toEqual(['endpoint_unavailable', 'endpoint_unavailable']);
    // What is under way stays so, and lifts nothing: it was sent before.
    stage.source.call(1).succeed();
    expect(await b?.outcome).toBe('token-1-of-b');
    expect(stage.failures.state('endpoint')).toBeDefined();
    expect(stage.source.calls).toHaveLength(2);
  });

  it('stays when a circuit opens only for failing owners, and is the next trial request', async () => {
    stage = new Stage({ concurrency: 1 });
    // A request counts as slow after three times as long.
    await stage.send('long');
    stage.clock.advance(1_000);
    await stage.answer(0);
    const { outcome } = await stage.send('a');
    stage.source.call(1).fail(down);
    await outcome;
    await settle();
    stage.clock.advance(750);
    const failing = createSlot('owner_b');
    failed(failing, { error: down, count: 1, retryAtMonotonicMs: 0, hung: true });
    const probe = stage.begin('b', failing);
    const next = await stage.send('c');
    stage.clock.advance(HUNG_AFTER_MS + 1);
    expect(stage.numbers.queued).toBe(1);
    stage.source.call(2).fail(ambiguous);
    expect(await probe.outcome).toBe('endpoint_unavailable');
    await settle();
    stage.source.call(3).succeed();
    expect(await next.outcome).toBe('token-2-of-c');
  });

  it('is refused when it comes first while a circuit is open', async () => {
    stage = new Stage({ concurrency: 1 });
    stage.begin('a');
    const { outcome } = stage.begin('b');
    openCircuit(stage.failures);
    await settle();
    stage.source.call(0).succeed();
    expect(await outcome).toBe('endpoint_unavailable');
    expect(stage.source.calls).toHaveLength(1);
  });
});

describe('more than can be ended in one turn of the event loop', () => {
  it('is refused in slices when a circuit opens, in the end all of it', async () => {
    stage = new Stage({ concurrency: 1, maxQueued: 1_000 });
    stage.begin('first');
    const outcomes = Array.from({ length: 1_000 }, (_, n) => stage.begin(`key-${n}`).outcome);
    await settle();
    stage.source.call(0).fail(down);
    expect(await outcomes[0]).toBe('endpoint_unavailable');
    expect(stage.numbers.queued).toBeGreaterThan(0);
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['endpoint_unavailable']));
    expect(stage.source.calls).toHaveLength(1);
  });

  it('leaves in slices when the signal of many callers aborts; none gets a token that arrives meanwhile', async () => {
    stage = new Stage();
    const controller = new AbortController();
    const { slot, outcome } = stage.begin('a', undefined, controller.signal);
    const outcomes = [outcome];
    for (let count = 1; count < 300; count++) outcomes.push(stage.join('a', controller.signal));
    await settle();
    controller.abort('enough');
    expect(stage.numbers.waiting).toBe(300 - 256);
    stage.source.call(0).succeed();
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['enough']));
    expect(slot.held?.value).toBe('token-1-of-a');
  });

  it('is closed in slices, in the end all of it', async () => {
    stage = new Stage({ concurrency: 1, maxQueued: 300 });
    const outcomes = Array.from({ length: 300 }, (_, n) => stage.begin(`key-${n}`).outcome);
    const closed = stage.flights.close(1_000);
    expect(stage.numbers.queued).toBe(300 - SLICE);
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['closed']));
    expect(await closed).toBe(0);
  });
});

describe('a source that shares with other processes', () => {
  const waitsForPermit = async (options: Partial<OwnerTokenRegistryOptions> = {}, ahead: string[] = []) => {
    stage = new Stage({ concurrency: 1, ...options });
    const shared = await stage.send('a');
    const { request } = stage.source.call(0);
    request.permit?.release();
    const other = stage.begin('b');
    for (const key of ahead) stage.begin(key);
    const taken = permitOf(request);
    await settle();
    return { shared, other, request, taken };
  };
  const permitOf = ({ permit }: TokenRequest) =>
    (permit as RequestPermit).take().then(
      () => 'taken',
      (reason) => reason,
    );

  it('lets another owner’s request start while it waits, and queues for its next permit', async () => {
    const { shared, other, taken } = await waitsForPermit();
    expect(stage.numbers).toEqual({ inFlight: 1, queued: 1, waiting: 2 });
    stage.source.call(1).succeed();
    expect([await other.outcome, await taken]).toEqual(['token-1-of-b', 'taken']);
    expect(stage.numbers).toEqual({ inFlight: 1, queued: 0, waiting: 1 });
    const third = await stage.send('c');
    expect(stage.source.countFor('c')).toBe(0);
    stage.source.call(0).succeed();
    expect(await shared.outcome).toBe('token-2-of-a');
    await settle();
    stage.source.call(2).succeed();
    expect(await third.outcome).toBe('token-3-of-c');
  });

  it('frees one permit however often it releases it, and takes none beside the one it has', async () => {
    stage = new Stage({ concurrency: 1 });
    await stage.send('a');
    const { request } = stage.source.call(0);
    expect(await permitOf(request)).toBe('taken');
    for (let n = 0; n < 2; n++) request.permit?.release();
    for (const key of ['b', 'c']) stage.begin(key);
    await settle();
    expect(stage.source.calls.map(({ accessKey }) => accessKey)).toEqual(['a', 'b']);
    await stage.answer(1);
    expect(stage.source.countFor('c')).toBe(1);
  });

  it('gets no permit once it has settled, and does not wait for one either', async () => {
    stage = new Stage({ concurrency: 1 });
    const { outcome } = await stage.send('a');
    stage.source.call(0).succeed();
    await outcome;
    await settle();
    stage.begin('b');
    expect(await permitOf(stage.source.call(0).request)).toBe('taken');
    expect(stage.numbers).toEqual({ inFlight: 1, queued: 0, waiting: 1 });
  });

  it('gets no permit once its signal has aborted', async () => {
    stage = new Stage({ requestTimeoutMs: 2_000 });
    await stage.send('a');
    stage.clock.advance(2_000);
    await settle();
    const { request } = stage.source.call(0);
    expect(await permitOf(request)).toBe(request.signal.reason);
  });

  it('queues once for concurrent calls, again after each release', async () => {
    const { request, taken } = await waitsForPermit();
    const second = permitOf(request);
    expect(stage.numbers.queued).toBe(1);
    stage.source.call(1).succeed();
    expect(await Promise.all([taken, second])).toEqual(['taken', 'taken']);
    request.permit?.release();
    const third = await stage.send('c');
    expect(stage.source.countFor('c')).toBe(1);
    const last = permitOf(request);
    await settle();
    expect(stage.numbers).toMatchObject({ inFlight: 1, queued: 1 });
    stage.source.calls.at(-1)?.succeed();
    expect([await third.outcome, await last]).toEqual(['token-2-of-c', 'taken']);
  });

  it('dates its request from when it took the permit', async () => {
    const { shared, taken } = await waitsForPermit();
    stage.clock.advance(400);
    stage.source.call(1).succeed();
    await taken;
    stage.source.call(0).succeed();
    await shared.outcome;
    expect(shared.slot.held?.issuedAtMs).toBe(stage.clock.now());
  });

  it('is aborted when its next permit does not come in time: that is no failure of the owner or the service', async () => {
    // Every 0.3 s one of those ahead of it becomes slow, and the next one takes its permit.
    const { shared, request, taken } = await waitsForPermit({ maxQueued: 20 }, keys(16));
    stage.clock.advance(5_000);
    expect(await shared.outcome).toBe('queue_timeout');
    expect(await taken).toMatchObject({ code: 'queue_timeout' });
    expect(await taken).toBe(request.signal.reason);
    await stage.fail(0, request.signal.reason);
    expect(stage.flights.counts.failures).toBe(0);
    expect(stage.events).not.toContain('request.failed');
    expect(stage.numbers).toEqual({ inFlight: 17, queued: 0, waiting: 17 });
  });

  it('is given up by the time limit if it does not settle after that', async () => {
    const { shared, other } = await waitsForPermit({ requestsPerSecond: 0.1, requestTimeoutMs: 8_000 });
    const cancel = vi.spyOn(stage.failures, 'cancel');
    stage.clock.advance(5_000);
    expect([await shared.outcome, await other.outcome]).toEqual(['queue_timeout', 'queue_timeout']);
    expect([stage.numbers, cancel.mock.calls.length]).toEqual([{ inFlight: 1, queued: 0, waiting: 0 }, 0]);
    stage.clock.advance(3_000);
    await settle();
    // Otherwise a trial would never end.
    expect([stage.numbers, cancel.mock.calls.length]).toEqual([NOTHING, 1]);
  });

  it('no longer waits for a permit once its call has failed', async () => {
    const { shared, taken } = await waitsForPermit();
    await stage.fail(0, new Error('no'));
    expect(await shared.outcome).toBe('source_failed');
    expect(await taken).toMatchObject({ code: 'source_failed' });
  });

  it('leaves no timer if the registry closes after that', async () => {
    const { shared } = await waitsForPermit({ requestsPerSecond: 0.1 });
    stage.clock.advance(5_000);
    expect(await shared.outcome).toBe('queue_timeout');
    const closed = stage.flights.close(1_000);
    stage.clock.advance(1_000);
    expect([await closed, stage.clock.pendingTimers]).toEqual([1, 0]);
  });

  it('leaves the queue, and its timer, when the registry closes', async () => {
    const { shared } = await waitsForPermit({ requestsPerSecond: 0.1 });
    const closed = stage.flights.close(1_000);
    expect(await shared.outcome).toBe('closed');
    expect([stage.numbers.queued, stage.source.call(0).request.signal.aborted]).toEqual([0, true]);
    stage.clock.advance(1_000);
    expect(await closed).toBe(1);
    expect(stage.clock.pendingTimers).toBe(0);
  });

  it('is aborted when a circuit opens while it waits for a permit', async () => {
    const { shared, request, taken } = await waitsForPermit();
    stage.source.call(1).fail(down);
    expect(await shared.outcome).toBe('endpoint_unavailable');
    expect(await taken).toMatchObject({ code: 'endpoint_unavailable' });
    expect(await taken).toBe(request.signal.reason);
    await stage.fail(0, request.signal.reason);
    expect(stage.flights.counts.failures).toBe(1);
  });

  it('leaves the queue with its request, and is not called again', async () => {
    const { shared, other } = await waitsForPermit();
    stage.source.call(0).succeed();
    expect(await shared.outcome).toBe('token-1-of-a');
    expect(stage.numbers).toEqual({ inFlight: 1, queued: 0, waiting: 1 });
    stage.source.call(1).succeed();
    await other.outcome;
    await settle();
    expect(stage.source.calls).toHaveLength(2);
  });

  it('gets a permit for the second request if it brought a rejected token without one', async () => {
    stage = new Stage({ concurrency: 1 });
    const slot = createSlot('owner_a');
    denied(slot, stage.names.ofToken('refused'));
    const { outcome } = await stage.send('a', slot);
    stage.source.call(0).request.permit?.release();
    const other = stage.begin('b');
    await stage.answer(0, { token: 'refused' });
    expect(stage.source.countFor('a')).toBe(1);
    stage.source.call(1).succeed();
    await other.outcome;
    await settle();
    stage.source.call(2).succeed();
    expect(await outcome).toBe('token-3-of-a');
  });

  it('learns the scope that the registry attributes a failure to', async () => {
    stage = new Stage();
    await stage.send('a');
    const { request } = stage.source.call(0);
    const refused = new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' });
    expect([down, refused].map((error) => request.scopeOf?.(error))).toEqual(['endpoint', 'owner']);
  });

  it('learns when the registry ends the request, also from a copy of it', async () => {
    stage = new Stage({ requestTimeoutMs: 15_000 });
    const { outcome } = await stage.send('a');
    const { request } = stage.source.call(0);
    expect([request.timeoutMs, { ...request }.timeoutMs]).toEqual([15_000, 15_000]);
    stage.clock.advance(15_000);
    expect([await outcome, request.signal.aborted]).toEqual(['endpoint_unavailable', true]);
  });

  it('learns that the request is sent again after that failure, and after no other one', async () => {
    const sentAfter = async (thrown: (asked: OwnerTokenError) => OwnerTokenError) => {
      const before = await stageWithBudget();
      await stage.send('a', createProvenSlot('owner_a'));
      const { request } = stage.source.call(before);
      const asked = new OwnerTokenError('endpoint_unavailable', 'lone', { status: 503 });
      expect(request.scopeOf?.(asked)).toBeUndefined();
      await stage.fail(before, thrown(asked));
      stage.clock.advance(200);
      await settle();
      return stage.source.countFor('a');
    };
    expect(await sentAfter((asked) => asked)).toBe(2);
    expect(await sentAfter(() => new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' }))).toBe(1);
  });

  it('may give its permit back although it learns so, and is then not sent again', async () => {
    const before = await stageWithBudget();
    const { outcome } = await stage.send('a');
    const { request } = stage.source.call(before);
    const isolated = new OwnerTokenError('endpoint_unavailable', 'isolated', { status: 503 });
    request.scopeOf?.(isolated);
    request.permit?.release();
    stage.source.call(before).fail(isolated);
    expect(await outcome).toBe('endpoint_unavailable');
    expect(stage.numbers).toMatchObject({ inFlight: 0, queued: 0 });
  });
});

describe('a request that nobody waits for any more', () => {
  it('is dropped while it is queued', async () => {
    stage = new Stage({ concurrency: 1 });
    stage.begin('a');
    const leaving = new AbortController();
    const { outcome } = stage.begin('b', undefined, leaving.signal);
    leaving.abort('enough');
    expect(await outcome).toBe('enough');
    expect(stage.numbers).toEqual({ inFlight: 1, queued: 0, waiting: 1 });
    expect([stage.isRequesting('a'), stage.isRequesting('b')]).toEqual([true, false]);
  });

  it('is not made when its permit was only just granted, and returns the permit', async () => {
    stage = new Stage();
    openCircuit(stage.failures);
    stage.clock.advance(750);
    const leaving = new AbortController();
    const { outcome } = stage.begin('a', undefined, leaving.signal);
    expect(stage.failures.state('endpoint')?.probing).toBe(true);
    leaving.abort('enough');
    expect(await outcome).toBe('enough');
    await settle();
    expect(stage.source.calls).toEqual([]);
    expect(stage.failures.state('endpoint')?.probing).toBe(false);
  });

  it('is finished and kept when it was sent', async () => {
    stage = new Stage();
    const leaving = new AbortController();
    const { slot, outcome } = await stage.send('a', undefined, leaving.signal);
    leaving.abort('enough');
    expect(await outcome).toBe('enough');
    expect([stage.isRequesting('a'), stage.source.call(0).request.signal.aborted]).toEqual([true, false]);
    await stage.answer(0);
    expect(slot.held?.value).toBe('token-1-of-a');
  });
});

describe('an owner that is forgotten', () => {
  it('has its request aborted once nobody waits, since its token would not be stored', async () => {
    stage = new Stage();
    const leaving = new AbortController();
    const { outcome } = await stage.send('a', undefined, leaving.signal);
    stage.forget('a');
    const { signal } = stage.source.call(0).request;
    expect(signal.aborted).toBe(false);
    leaving.abort('enough');
    expect(await outcome).toBe('enough');
    expect(signal.reason).toMatchObject({ name: 'AbortError', message: 'no callers' });
    await stage.fail(0, signal.reason);
    expect(stage.flights.counts.failures).toBe(0);
  });

  it('releases the permit of its aborted request, so that queued requests start', async () => {
    stage = new Stage({ concurrency: 1 });
    const leaving = new AbortController();
    const { outcome } = await stage.send('a', undefined, leaving.signal);
    const before = stage.begin('b');
    stage.forget('a');
    leaving.abort('enough');
    expect(await outcome).toBe('enough');
    const after = stage.begin('c');
    await stage.fail(0, stage.source.call(0).request.signal.reason);
    await stage.answer(1);
    await stage.answer(2);
    expect([await before.outcome, await after.outcome]).toEqual(['token-1-of-b', 'token-2-of-c']);
  });

  it('has its aborted request count all the same if its error is about the client', async () => {
    stage = new Stage();
    const leaving = new AbortController();
    const { outcome } = await stage.send('a', undefined, leaving.signal);
    stage.forget('a');
    leaving.abort('enough');
    expect(await outcome).toBe('enough');
    await stage.fail(0, new OwnerTokenError('source_failed', 'no secret', { failureScope: 'client' }));
    expect(stage.flights.counts.failures).toBe(1);
    expect(stage.failures.state('client')?.pause.error.code).toBe('source_failed');
  });

  it('has its request finished for those who wait; nobody joins it, and nothing is stored', async () => {
    stage = new Stage({ concurrency: 1 });
    const first = stage.begin('a');
    const queued = await stage.send('b');
    for (const key of ['a', 'b']) stage.forget(key);
    expect(stage.requesting).toEqual([]);
    const anew = stage.begin('a');
    stage.source.call(0).succeed();
    expect(await first.outcome).toBe('token-1-of-a');
    await settle();
    stage.source.call(1).succeed();
    expect(await queued.outcome).toBe('token-2-of-b');
    expect([first.slot.held, queued.slot.held, stage.stored]).toEqual([undefined, undefined, []]);
    // The new one was not touched by the end of the old.
    expect(stage.owners.peek('a')).toBe(anew.slot);
    await settle();
    stage.source.call(2).succeed();
    expect(await anew.outcome).toBe('token-3-of-a');
    expect(stage.stored).toEqual(['owner_a']);
  });
});

describe('forgetting all owners', () => {
  it('drops requests without callers, settles the others without caching their tokens, and starts new ones', async () => {
    stage = new Stage({ concurrency: 1 });
    const sent = stage.begin('a');
    const queued = await stage.send('b');
    stage.flights.refresh('refreshed', createSlot('owner_refreshed'));
    denied(queued.slot, 'a digest');
    stage.flights.forgetAll(stage.owners.clear());
    expect(stage.numbers).toEqual({ inFlight: 1, queued: 1, waiting: 2 });
    expect(queued.slot.trouble).toBeUndefined();
    const later = stage.begin('c');
    for (const index of [0, 1, 2]) await stage.answer(index);
    expect(await Promise.all([sent.outcome, queued.outcome, later.outcome])).toEqual([
      ...['token-1-of-a', 'token-2-of-b', 'token-3-of-c'],
    ]);
    expect([stage.source.countFor('refreshed'), stage.stored]).toEqual([0, ['owner_c']]);
  });
});

describe('a refresh that starts after its token has ended', () => {
  const startLate = async (forget: boolean) => {
    stage = new Stage({ concurrency: 1, expiry: fixedLifetime(900) });
    const { slot, outcome } = await stage.send('a');
    stage.source.call(0).succeed();
    await outcome;
    stage.begin('other');
    stage.flights.refresh('a', slot);
    const joined = stage.join('a');
    if (forget) stage.forget('a');
    stage.clock.advance(950);
    await settle();
    await stage.answer(1);
    expect([stage.source.call(2).request.reason, slot.held]).toEqual(['expired', undefined]);
    const { usable, size } = stage.owners;
    stage.source.call(2).succeed();
    expect(await joined).toBe('token-3-of-a');
    return { usable, size };
  };

  it('asks for another one, and its owner counts as one without a token until then', async () => {
    // The other owner has a token.
    expect(await startLate(false)).toEqual({ usable: 1, size: 2 });
  });

  it('leaves nothing behind if its owner was forgotten', async () => {
    expect(await startLate(true)).toEqual({ usable: 1, size: 1 });
  });
});

describe('a failure that opens a circuit', () => {
  it('is reported once, with its scope, and refuses what is queued', async () => {
    stage = new Stage();
    const outcomes = ['a', 'b', 'queued'].map((key) => stage.begin(key).outcome);
    await settle();
    for (const index of [0, 1]) await stage.fail(index, down);
    expect(await Promise.all(outcomes)).toEqual(Array(3).fill('endpoint_unavailable'));
    expect(stage.source.calls).toHaveLength(2);
    expect(stage.events.filter((event) => event === 'pause.began')).toHaveLength(1);
    stage.clock.advance(750);
    await stage.send('probe');
    await stage.answer(2);
    const lifted = { event: 'pause.lifted', failureScope: 'endpoint', durationMs: 750, refused: 1 };
    expect(stage.logged).toContainEqual(expect.objectContaining(lifted));
  });
});

describe('resuming', () => {
  it('starts requests that the low limit after a pause kept queued', async () => {
    stage = new Stage();
    openCircuit(stage.failures);
    stage.clock.advance(750);
    const trial = await stage.send('trial');
    await stage.answer(0);
    await trial.outcome;
    const outcomes = ['a', 'b', 'c'].map((key) => stage.begin(key).outcome);
    await settle();
    const { queued } = stage.numbers;
    stage.failures.resume();
    stage.flights.liftCircuits();
    expect([queued, stage.numbers.queued]).toEqual([2, 1]);
    stage.source.script((call) => call.succeed());
    for (const call of stage.source.calls) if (!call.settled) call.succeed();
    await Promise.all(outcomes);
  });
});

describe('what lifts a pause', () => {
  it('is told after the answer that did', async () => {
    stage = new Stage();
    const { outcome } = await stage.send('a');
    stage.source.call(0).fail(down);
    await outcome;
    expect(stage.events).toEqual(['request.sent', 'request.failed', 'pause.began']);
    stage.clock.advance(750);
    const probe = await stage.send('b');
    stage.source.call(1).succeed();
    await probe.outcome;
    expect(stage.events).toEqual(['request.sent', 'request.succeeded', 'pause.lifted']);
  });

  it('may be an answer that refuses only the owner', async () => {
    stage = new Stage();
    const { outcome } = await stage.send('a');
    stage.source.call(0).fail(down);
    await outcome;
    stage.clock.advance(750);
    const probe = await stage.send('b');
    stage.logged.length = 0;
    stage.source.call(1).fail(new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' }));
    expect(await probe.outcome).toBe('owner_refused');
    await settle();
    expect(stage.events).toEqual(['request.failed', 'pause.began', 'pause.lifted']);
  });
});

describe('closing', () => {
  it('ends what is queued at once, and what was sent by its signal', async () => {
    stage = new Stage({ concurrency: 1 });
    const [sent, queued] = [stage.begin('a'), stage.begin('b')];
    await settle();
    const { signal } = stage.source.call(0).request;
    signal.addEventListener('abort', () => stage.source.call(0).fail(signal.reason));
    const closed = stage.flights.close(1_000);
    expect([await sent.outcome, await queued.outcome]).toEqual(['closed', 'closed']);
    expect(await closed).toBe(0);
    expect(signal.reason).toMatchObject({ code: 'closed', owner: undefined });
    expect(stage.source.calls).toHaveLength(1);
    expect(stage.flights.counts.failures).toBe(0);
    expect(stage.events).toEqual(['request.sent']);
    expect([sent.slot.trouble?.failure, stage.stored]).toEqual([undefined, []]);
  });

  it('does not send what was only just granted its permit', async () => {
    stage = new Stage();
    const { outcome } = stage.begin('a');
    const closed = stage.flights.close(1_000);
    expect(await outcome).toBe('closed');
    await settle();
    expect(await closed).toBe(0);
    expect(stage.source.calls).toEqual([]);
  });

  it('waits for what does not heed its signal no longer than it is told, and counts it', async () => {
    stage = new Stage();
    const { outcome } = await stage.send('a');
    const closed = stage.flights.close(1_000);
    expect(await outcome).toBe('closed');
    stage.clock.advance(1_000);
    expect(await closed).toBe(1);
  });

  it('counts the time spent rejecting callers towards `timeoutMs`', async () => {
    stage = new Stage({ concurrency: 1, maxQueued: 2 * SLICE });
    const sent = await stage.send('a');
    const queued = stage.begin('b').outcome.then(() => stage.clock.advance(400));
    const others = keys(SLICE).map((key) => stage.begin(key).outcome);
    const closed = stage.flights.close(1_000);
    await Promise.all([sent.outcome, queued, ...others]);
    await settle();
    stage.clock.advance(600);
    expect(await closed).toBe(1);
  });

  it('rejects every caller once and in order, although some requests settle meanwhile', async () => {
    stage = new Stage({ concurrency: 3 * SLICE, maxQueued: SLICE });
    const order: string[] = [];
    const names = keys(4 * SLICE);
    const outcomes = names.map((key) => stage.begin(key).outcome.then((code) => order.push(`${code} ${key}`)));
    await settle();
    const closed = stage.flights.close(1_000);
    // The first two react to the abort; another succeeds before `close` reaches it.
    for (const index of [0, 1]) stage.source.call(index).fail(new Error('aborted'));
    stage.source.call(3 * SLICE - 1).succeed();
    await Promise.all(outcomes);
    await settle();
    const rejected = names.toSpliced(3 * SLICE - 1, 1).map((key) => `closed ${key}`);
    expect(order.filter((each) => each.startsWith('closed'))).toEqual(rejected);
    expect(stage.flights.queued).toBe(0);
    stage.clock.advance(1_000);
    expect(await closed).toBe(3 * SLICE - 3);
  });

  it('stops the timer of the queue at once, so that callers still queued get `closed`, not `queue_timeout`', async () => {
    stage = new Stage({ concurrency: 1, maxQueued: 2 * SLICE, maxQueueMs: 100 });
    const outcomes = keys(2 * SLICE).map((key) => stage.begin(key).outcome);
    await settle();
    const closed = stage.flights.close(1_000);
    stage.clock.advance(500);
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['closed']));
    stage.clock.advance(500);
    expect([await closed, stage.clock.pendingTimers]).toEqual([1, 0]);
  });

  it('waits for every request in flight', async () => {
    stage = new Stage();
    const outcomes = ['a', 'b'].map((key) => stage.begin(key).outcome);
    await settle();
    const closed = stage.flights.close(1_000);
    expect(await Promise.all(outcomes)).toEqual(['closed', 'closed']);
    for (const index of [0, 1]) await stage.fail(index, new Error('aborted'));
    expect(await closed).toBe(0);
  });

  it('may begin inside a call of the source', async () => {
    stage = new Stage();
    let closed: Promise<number> | undefined;
    stage.source.script((call) => {
      closed = stage.flights.close(1_000);
      call.fail(new Error('aborted'));
    });
    const { outcome } = await stage.send('a');
    expect([await outcome, await closed]).toEqual(['closed', 0]);
  });

  it('leaves no timer for a source that was being called and never settles', async () => {
    stage = new Stage();
    let closed: Promise<number> | undefined;
    stage.source.script(() => {
      closed = stage.flights.close(1_000);
    });
    const { outcome } = await stage.send('a');
    expect(await outcome).toBe('closed');
    stage.clock.advance(1_000);
    expect([await closed, stage.clock.pendingTimers]).toEqual([1, 0]);
  });

  it('calls no source any more, however many requests have just been permitted', async () => {
    stage = new Stage({ concurrency: 2 * SLICE });
    const outcomes = keys(2 * SLICE).map((key) => stage.begin(key).outcome);
    const closed = stage.flights.close(1_000);
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['closed']));
    expect([await closed, stage.source.calls.length]).toEqual([0, 0]);
  });

  it('of nothing is over at once', async () => {
    stage = new Stage();
    expect(await stage.flights.close(1_000)).toBe(0);
  });
});

describe('a failed request that is sent again', () => {
  const broken = new OwnerTokenError('endpoint_unavailable', 'it answered 503', { status: 503 });
  const tooMany = new OwnerTokenError('rate_limited', 'it answered 429', { status: 429 });

  it('waits without a permit, and its callers learn of the second outcome only', async () => {
    const before = await stageWithBudget();
    const { slot, outcome } = stage.begin('a', createProvenSlot('owner_a'));
    const joined = stage.join('a');
    await settle();
    await stage.fail(before, broken);
    expect(stage.numbers).toEqual({ inFlight: 0, queued: 1, waiting: 2 });
    for (const key of ['b', 'c']) stage.begin(key);
    await settle();
    expect(stage.source.calls).toHaveLength(before + 3);
    const late = stage.join('a');
    stage.clock.advance(99);
    for (const index of [before + 1, before + 2]) await stage.answer(index);
    expect(stage.source.countFor('a')).toBe(1);
    stage.clock.advance(1);
    await settle();
    expect(stage.source.countFor('a')).toBe(2);
    stage.source.call(-1).succeed();
    expect(new Set([await outcome, await joined, await late]).size).toBe(1);
    expect(slot.trouble?.failure).toBeUndefined();
    expect(stage.flights.counts).toEqual({ requests: 14, refreshes: 0, failures: 1 });
    const events = stage.events;
    expect(events.filter((event) => event === 'request.failed')).toHaveLength(1);
    expect(events).not.toContain('pause.began');
  });

  it('fails for good the second time', async () => {
    const before = await stageWithBudget();
    const { slot, outcome } = await stage.send('a', createProvenSlot('owner_a'));
    await stage.fail(before, broken);
    stage.clock.advance(100);
    await settle();
    stage.source.call(before + 1).fail(broken);
    expect(await outcome).toBe('endpoint_unavailable');
    expect(slot.trouble?.failure).toMatchObject({ count: 1, retryAtMonotonicMs: 100 + 75 });
  });

  it('is dropped, with its timer, when all callers leave, and when the registry closes', async () => {
    const before = await stageWithBudget();
    const controller = new AbortController();
    const { outcome } = await stage.send('a', createSlot('owner_a'), controller.signal);
    await stage.fail(before, broken);
    controller.abort(new Error('left'));
    expect(await outcome).toMatchObject({ message: 'left' });
    expect([stage.numbers, stage.clock.pendingTimers]).toEqual([NOTHING, 0]);
    await stageWithBudget();
    const closing = await stage.send('a');
    await stage.fail(-1, broken);
    await stage.flights.close(0);
    expect(await closing.outcome).toBe('closed');
    expect(stage.clock.pendingTimers).toBe(0);
  });

  it('is none if nobody waits and its token would not be stored', async () => {
    const before = await stageWithBudget();
    const leaving = new AbortController();
    const { outcome } = await stage.send('a', undefined, leaving.signal);
    stage.forget('a');
    leaving.abort('enough');
    expect(await outcome).toBe('enough');
    await stage.fail(before, broken);
    expect([stage.numbers, stage.source.calls.length]).toEqual([NOTHING, before + 1]);
  });

  it('may be one whose token would not be stored, for those who wait, or a refresh, for which nobody does', async () => {
    const before = await stageWithBudget();
    const { outcome } = await stage.send('a', createProvenSlot('owner_a'));
    stage.forget('a');
    await stage.fail(before, broken);
    stage.clock.advance(100);
    await settle();
    await stage.answer(before + 1);
    expect(await outcome).toMatch(/-of-a$/);
    const again = await stageWithBudget();
    const slot = createProvenSlot('owner_b');
    stage.flights.refresh('b', slot);
    await settle();
    await stage.fail(again, broken);
    stage.clock.advance(100);
    await settle();
    await stage.answer(again + 1);
    expect(slot.held?.value).toMatch(/-of-b$/);
  });

  it('keeps its permit, whatever the source of its first attempt still releases or takes', async () => {
    const before = await stageWithBudget();
    await stage.send('a', createProvenSlot('owner_a'));
    const { permit } = stage.source.call(before).request;
    await stage.fail(before, broken);
    stage.clock.advance(100);
    await settle();
    permit?.release();
    stage.begin('b');
    const third = await stage.send('c');
    expect([stage.source.countFor('b'), stage.source.countFor('c')]).toEqual([1, 0]);
    await permit?.take();
    await stage.answer(before + 1);
    await stage.answer(-1);
    expect(await third.outcome).toMatch(/-of-c$/);
  });

  it('is refused when a circuit opens before it is its turn', async () => {
    const before = await stageWithBudget();
    const { outcome } = await stage.send('a', createProvenSlot('owner_a'));
    await stage.fail(before, broken);
    openCircuit(stage.failures);
    stage.clock.advance(100);
    expect(await outcome).toBe('endpoint_unavailable');
    expect(stage.source.countFor('a')).toBe(1);
  });

  it('goes to the front of the queue after a 429 that only means too much', async () => {
    stage = new Stage({ concurrency: 4 });
    const outcomes = ['a', 'b', 'c', 'd', 'e'].map((key) => stage.begin(key).outcome);
    await settle();
    await stage.fail(3, tooMany);
    expect(stage.numbers).toEqual({ inFlight: 3, queued: 2, waiting: 5 });
    stage.clock.advance(50);
    stage.source.script((call) => call.succeed());
    for (const index of [0, 1, 2]) stage.source.call(index).succeed();
    expect((await Promise.all(outcomes)).every((value) => value.startsWith('token-'))).toBe(true);
    expect(stage.source.calls.map(({ accessKey }) => accessKey)).toEqual(['a', 'b', 'c', 'd', 'd', 'e']);
  });

  it('keeps the permit that it gets again at once', async () => {
    stage = new Stage({ concurrency: 2 });
    stage.source.script((call) => call.succeed());
    for (let count = 0; count < 30; count++) await stage.begin(`issued ${count}`).outcome;
    stage.source.script(undefined);
    const outcomes = ['a', 'b', 'c'].map((key) => stage.begin(key).outcome);
    await settle();
    await stage.fail(30, tooMany);
    stage.clock.advance(299);
    await settle();
    // It was sent before the first 429, which the pace follows already.
    await stage.fail(31, tooMany);
    expect(stage.source.calls.slice(30).map(({ accessKey }) => accessKey)).toEqual(['a', 'b', 'a', 'b']);
    stage.source.script((call) => call.succeed());
    for (const index of [32, 33]) stage.source.call(index).succeed();
    stage.clock.advance(400);
    await Promise.all(outcomes);
  });

  it('is none whose source has given its permit back, or that has been queued too long', async () => {
    const before = await stageWithBudget();
    const { outcome } = await stage.send('a', createProvenSlot('owner_a'));
    stage.source.call(before).request.permit?.release();
    stage.source.call(before).fail(broken);
    expect(await outcome).toBe('endpoint_unavailable');
    const late = await stage.send('b');
    stage.clock.advance(5_000);
    stage.source.call(before + 1).fail(tooMany);
    expect(await late.outcome).toBe('rate_limited');
  });
});

describe('a slow request', () => {
  it('gives its permit to the next one, and its outcome still counts', async () => {
    stage = new Stage({ concurrency: 1 });
    const slow = stage.begin('slow');
    const next = await stage.send('next');
    stage.clock.advance(299);
    await settle();
    expect(stage.source.countFor('next')).toBe(0);
    stage.clock.advance(1);
    await settle();
    expect(stage.source.countFor('next')).toBe(1);
    expect(stage.numbers).toEqual({ inFlight: 2, queued: 0, waiting: 2 });
    for (const call of stage.source.calls) call.succeed();
    expect([await slow.outcome, await next.outcome]).toEqual(['token-1-of-slow', 'token-2-of-next']);
  });
});

describe('a queue that is too long', () => {
  it('refuses at once what it would serve too late, and says when that would be', async () => {
    stage = new Stage({ maxQueueMs: 100, requestsPerSecond: 1 });
    const [first, second, third] = ['a', 'b', 'c'].map((key) => stage.begin(key));
    const late = stage.flights.begin('d', createSlot('owner_d'), undefined);
    await expect(late).rejects.toMatchObject({
      ...{ code: 'queue_timeout', owner: 'owner_d' },
      message: expect.stringContaining('would wait 2 s, over 10 times maxQueueMs'),
    });
    await settle();
    stage.source.script((call) => call.succeed());
    stage.source.call(0).succeed();
    expect(await first?.outcome).toBe('token-1-of-a');
    stage.clock.advance(100);
    expect([await second?.outcome, await third?.outcome]).toEqual(['queue_timeout', 'queue_timeout']);
  });

  it('refuses what has waited ten times as long although others are served', async () => {
    stage = new Stage({ concurrency: 1, maxQueueMs: 100, maxQueued: 20 });
    const requests = Array.from({ length: 12 }, (_, n) =>
      stage.flights.begin(`${n}`, createSlot(`owner_${n}`), undefined),
    );
    const last = expect(requests.pop()).rejects.toMatchObject({
      ...{ code: 'queue_timeout', owner: 'owner_11' },
      message: expect.stringContaining('waited 10 times maxQueueMs'),
    });
    for (let count = 0; count < 11; count++) {
      await settle();
      stage.clock.advance(99);
      stage.source.call(-1).succeed();
    }
    await last;
    expect(await Promise.all(requests)).toHaveLength(11);
    expect(stage.source.calls).toHaveLength(11);
  });
});
