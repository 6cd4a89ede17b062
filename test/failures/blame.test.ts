import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorOptions } from '../../src/errors/owner-token-error.ts';
import { type BlameEvent, reduceBlame } from '../../src/failures/blame.ts';
import {
  askedCanaries,
  type Blame,
  type BlameState,
  type Circuit,
  initialBlame,
  mayStart,
  refusingCircuit,
  trialDueAtMs,
} from '../../src/failures/blame-state.ts';

const RANGES = {
  owner: { baseMs: 1_000, capMs: 300_000 },
  client: { baseMs: 1_000, capMs: 60_000 },
  endpoint: { baseMs: 500, capMs: 30_000 },
};

const errorWith = (options?: OwnerTokenErrorOptions) => new OwnerTokenError('endpoint_unavailable', 'no', options);
/** Speaks of the endpoint. */
const DOWN = errorWith();
/** Speaks of the client, if anybody else fails too. */
const REFUSED = new OwnerTokenError('owner_refused', 'no', { status: 401 });
/** Speaks of its owner. */
const REVOKED = new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' });

/** The fields of all states. */
interface AnyState {
  phase: BlameState<string>['phase'];
  suspects: string[];
  asked: string[];
  outstanding: number;
  failedCanaries: number;
  failure: OwnerTokenError | undefined;
  circuit: Circuit;
  isDue: boolean;
}

type Failure = Extract<BlameEvent<string>, { kind: 'failed' }>;

/** The blame after events at time 0, unless `nowMs` says otherwise. Each request has the next number. */
class Story {
  readonly blame: Blame<string> = initialBlame(RANGES);
  /** Whether the last event wants a canary to be sent. */
  wantsCanary = false;
  nowMs = 0;
  #number = 0;

  is(event: BlameEvent<string>): this {
    this.wantsCanary = reduceBlame(this.blame, event, this.nowMs);
    return this;
  }

  succeeds(...owners: string[]): this {
    for (const owner of owners) this.is({ kind: 'succeeded', owner, number: ++this.#number, isTrial: false });
    return this;
  }

  /** First failures of these owners. */
  fails(owners: string, error = DOWN, changes: Partial<Failure> = {}): this {
    for (const owner of owners) {
      const event = { owner, number: ++this.#number, error, isTrial: false, ownerFailures: 0, jitter: 1, ...changes };
      this.is({ kind: 'failed', ...event });
    }
    return this;
  }

  trialHangs(): this {
    return this.is({ kind: 'slow', deadlineMs: 9_999 });
  }

  asked(owner: string | undefined): this {
    return this.is(owner === undefined ? { kind: 'noCanaryFree', jitter: 1 } : { kind: 'trialSent', owner });
  }

  trialFails(owner: string, error = DOWN): this {
    return this.fails(owner, error, { isTrial: true });
  }

  trialSucceeds(owner: string): this {
    return this.is({ kind: 'succeeded', owner, number: ++this.#number, isTrial: true });
  }

  /** What is known, with the fields of every state. */
  get facts(): Partial<AnyState> & Pick<Blame<string>, 'canaries' | 'newestSuccess' | 'trustedUntilMs'> {
    return { ...this.blame, ...this.blame.state };
  }

  /** Phase, suspects, failed canaries, and whether a canary is wanted. */
  get view() {
    const { phase, suspects = [], failedCanaries = 0 } = this.facts;
    return [phase, suspects.join(''), failedCanaries, this.wantsCanary];
  }
}

/** Canaries `x` and `y` have succeeded, `y` last. */
const known = () => new Story().succeeds('x', 'y');
/** Three owners failed, and canary `y` is asked. */
const checking = (error = DOWN) => known().fails('abc', error).asked('y');
/** Both canaries failed too. */
const open = (error = DOWN) => checking(error).trialFails('y', error).asked('x').trialFails('x', error);
/** The tenth of ten suspects opened the circuit before anyone had succeeded. */
const openAtStart = () => new Story().fails('0123456789');

describe('while the circuit is closed', () => {
  it('anything may start and nothing is due', () => {
    const { blame } = new Story();
    expect([mayStart(blame), trialDueAtMs(blame), refusingCircuit(blame, 0)]).toEqual([true, undefined, undefined]);
    expect(blame).toMatchObject({ state: { phase: 'closed', suspects: [] }, canaries: [] });
  });

  it('each success makes its owner the first canary; sixteen are kept', () => {
    const story = new Story().succeeds('a', 'b', 'c', 'a', 'a');
    expect(story.blame.canaries).toEqual(['a', 'c', 'b']);
    const many = Array.from({ length: 17 }, (_, n) => `owner ${n}`);
    expect(new Story().succeeds(...many).blame.canaries).toEqual(many.slice(1).reverse());
  });

  it('a success clears the suspects, but is no reason to trust the service', () => {
    const { blame } = known().fails('ab').succeeds('x');
    expect([blame.state, blame.newestSuccess, blame.trustedUntilMs]).toEqual([
      ...[{ phase: 'closed', suspects: [] }, 5, -Infinity],
    ]);
  });

  it('a success of a request that was sent earlier leaves the newest success as it is', () => {
    const story = known().is({ kind: 'succeeded', owner: 'z', number: 1, isTrial: false });
    expect(story.blame.newestSuccess).toBe(2);
  });

  it.each<[string, () => Story, unknown[]]>([
    ['three first failures begin a check', () => known().fails('abc'), ['checking', '', 0, true]],
    [
      'failures that speak of their owners make no suspects',
      () => known().fails('abcdef', REVOKED),
      ['closed', '', 0, false],
    ],
    [
      'failures that are not the first of their owners make no suspects',
      () => known().fails('abc', DOWN, { ownerFailures: 1 }),
      ['closed', '', 0, false],
    ],
    [
      'nine failures before anyone has succeeded open no circuit',
      () => new Story().fails('012345678'),
      ['closed', '012345678', 0, false],
    ],
    ['an owner is one suspect, however often it fails', () => known().fails('aaab'), ['closed', 'ab', 0, false]],
  ])('%s', (_, told, view) => {
    const story = told();
    expect(story.view).toEqual(view);
    expect(story.facts.circuit).toBeUndefined();
  });

  it.each<[string, (story: Story) => Story]>([
    ['a failed trial', (story) => story.trialFails('x')],
    ['a hanging trial', (story) => story.trialHangs()],
    ['a dropped trial', (story) => story.is({ kind: 'trialDropped', jitter: 1 })],
    ['a canary', (story) => story.asked('x')],
    ['a missing canary', (story) => story.asked(undefined)],
    ['the end of a pause', (story) => story.is({ kind: 'due', isAwaited: false })],
  ])('%s from before it closed changes nothing', (_, event) => {
    const story = known();
    const before = structuredClone(story.blame);
    expect(event(story).wantsCanary).toBe(false);
    expect(structuredClone(story.blame)).toEqual(before);
  });

  it('the tenth owner that fails before anyone has succeeded opens the circuit, without canaries', () => {
    const story = openAtStart();
    expect(story.view).toEqual(['open', '', 0, false]);
    expect(story.facts.circuit).toMatchObject({ scope: 'endpoint', count: 1, retryAtMonotonicMs: 500 });
  });

  it.each(['client', 'endpoint'] as const)('a failure put at the %s opens that circuit at once', (failureScope) => {
    for (const story of [new Story(), known(), checking()]) {
      story.fails('z', errorWith({ failureScope }), { ownerFailures: 1, number: 0 });
      expect(story.facts).toMatchObject({ phase: 'open', circuit: { scope: failureScope, count: 1 } });
    }
  });
});

it('no canary is wanted after a success, after a trial was sent, or after an owner was forgotten', () => {
  const stories = [known(), checking().asked('x'), checking().is({ kind: 'forgotten', owner: 'x' })];
  expect(stories.map(({ wantsCanary }) => wantsCanary)).toEqual([false, false, false]);
});

describe('during a check by canaries', () => {
  it('no other request may start', () => {
    expect(mayStart(checking().blame)).toBe(false);
  });

  it('no canary of an earlier check counts', () => {
    const story = checking().trialFails('y').asked('x').succeeds('z');
    story.nowMs = 5_000;
    story.fails('def');
    expect(story.facts).toMatchObject({ phase: 'checking', asked: [], outstanding: 0, failedCanaries: 0 });
  });

  it('a canary that succeeds proves that the service works, and for five seconds no other is asked', () => {
    const story = checking();
    story.nowMs = 50;
    story.trialSucceeds('y').fails('def');
    expect(story.view).toEqual(['closed', 'de', 0, false]);
    expect(story.facts).toMatchObject({ phase: 'closed', trustedUntilMs: 5_050 });
    story.nowMs = 5_049;
    expect(story.fails('g').view).toEqual(['closed', 'de', 0, false]);
    story.nowMs = 5_050;
    expect(story.fails('h').view).toEqual(['checking', '', 0, true]);
    expect(story.trialSucceeds('x').blame.trustedUntilMs).toBe(10_050);
  });

  it('an answer that concerns only the canary proves that the service works, too', () => {
    const story = checking();
    story.nowMs = 50;
    story.trialFails('y', REVOKED);
    expect(story.view).toEqual(['closed', '', 0, false]);
    expect(story.facts).toMatchObject({ phase: 'closed', trustedUntilMs: 5_050 });
  });

  it.each<[string, () => Story, unknown[]]>([
    [
      'if the failure of a canary is put at the endpoint, no other canary is asked',
      () => checking().trialFails('y', errorWith({ failureScope: 'endpoint' })),
      ['open', '', 0, false],
    ],
    ['if the first canary is slow, another one is asked', () => checking().trialHangs(), ['checking', '', 0, true]],
    [
      'if two canaries are in flight and one fails, the other one decides',
      () => checking().asked('x').trialFails('y'),
      ['checking', '', 1, false],
    ],
    [
      'if one canary failed and the other one is slow, no third is asked',
      () => checking().trialFails('y').asked('x').trialHangs(),
      ['checking', '', 1, false],
    ],
    [
      'if the first canary is dropped, another one is asked',
      () => checking().is({ kind: 'trialDropped', jitter: 1 }),
      ['checking', '', 0, true],
    ],
    [
      'if one canary failed and the other one is dropped, a third is asked',
      () => checking().trialFails('y').asked('x').is({ kind: 'trialDropped', jitter: 1 }),
      ['checking', '', 1, true],
    ],
    [
      'if one canary failed and no other one is free, the circuit opens',
      () => checking().trialFails('y').asked(undefined),
      ['open', '', 0, false],
    ],
    [
      'if one canary is in flight and no other one is free, that one decides',
      () => checking().asked(undefined),
      ['checking', '', 0, false],
    ],
    ['if more owners fail, nothing changes', () => checking().fails('ef'), ['checking', '', 0, false]],
  ])('%s', (_, story, view) => {
    expect(story().view).toEqual(view);
  });

  it.each([
    ['the canaries that were refused', REFUSED, 'client', 'client_refused', 1_000],
    ['the canaries that got no answer', DOWN, 'endpoint', 'endpoint_unavailable', 500],
  ] as const)('%s say whose circuit opens', (_, error, scope, code, retryAtMonotonicMs) => {
    const { circuit, isDue } = open(error).facts;
    expect(circuit).toMatchObject({ scope, count: 1, retryAtMonotonicMs, error: { code, failureScope: scope } });
    expect(isDue).toBe(false);
  });

  it('a later failure of another owner opens the circuit if no canary is free', () => {
    const story = checking(DOWN).fails('d', REFUSED).is({ kind: 'forgotten', owner: 'y' });
    expect(story.is({ kind: 'trialDropped', jitter: 0 }).asked(undefined).facts.circuit).toMatchObject({
      scope: 'client',
    });
  });
});

describe('while the circuit is open', () => {
  const due = (story: Story, isAwaited = true) => story.is({ kind: 'due', isAwaited });

  it('the canaries of the check may be asked again at once, those of a trial only once no other is free', () => {
    expect(open().facts.asked).toEqual([]);
    expect(due(open()).asked('y').trialFails('y').facts.asked).toEqual(['y']);
  });

  it('calls are refused if its pause lasts longer than a second, and may wait otherwise', () => {
    const { blame } = open(REFUSED);
    expect([-1, 0, 1].map((nowMs) => refusingCircuit(blame, nowMs)?.scope)).toEqual(['client', undefined, undefined]);
  });

  it('nothing may start until its pause is over, and then only one trial', () => {
    const story = openAtStart();
    expect([mayStart(story.blame), trialDueAtMs(story.blame)]).toEqual([false, 500]);
    due(story);
    expect([mayStart(story.blame), trialDueAtMs(story.blame), story.wantsCanary]).toEqual(['trial', undefined, false]);
    story.asked('a');
    expect([mayStart(story.blame), trialDueAtMs(story.blame)]).toEqual([false, undefined]);
  });

  it('canaries and callers take turns as trials', () => {
    const story = open();
    const wanted: unknown[] = [];
    for (let round = 0; round < 4; round++) {
      wanted.push(due(story).wantsCanary);
      story.asked('y').trialFails('y');
    }
    expect(wanted).toEqual([true, false, true, false]);
  });

  it('a turn for which no caller waits is a canary’s', () => {
    const story = due(open(), false).asked('y').trialFails('y');
    expect(due(story, false).wantsCanary).toBe(true);
    expect(due(openAtStart(), false).wantsCanary).toBe(false);
  });

  it('further failures of owners change nothing, even one that is put at another scope', () => {
    const story = open();
    const before = structuredClone(story.blame);
    story.fails('defg').fails('k', errorWith({ failureScope: 'client' }));
    expect(structuredClone(story.blame)).toEqual(before);
  });

  it('its pause doubles when a canary and a caller have failed, and starts over when the scope changes', () => {
    const story = open();
    const pausesMs = Array.from({ length: 6 }, () => {
      story.nowMs += 10_000;
      due(story).asked('y').trialFails('y');
      return (story.facts.circuit as Circuit).retryAtMonotonicMs - story.nowMs;
    });
    expect(pausesMs).toEqual([500, 1_000, 1_000, 2_000, 2_000, 4_000]);
    expect(story.facts).toMatchObject({
      phase: 'open',
      isDue: false,
      outstanding: 0,
      circuit: { count: 7, sinceMs: 0 },
    });
    due(story).asked('z').trialFails('z', REFUSED);
    expect(story.facts.circuit).toMatchObject({ scope: 'client', count: 1, retryAtMonotonicMs: story.nowMs + 1_000 });
  });

  it.each([
    ['a success of an earlier request', (story: Story) => story.succeeds('z')],
    ['an answer that concerns only its owner', (story: Story) => story.trialFails('y', REVOKED)],
  ])('%s closes it, and the service is trusted for five seconds', (_, end) => {
    const story = due(open()).asked('y');
    story.nowMs = 700;
    end(story);
    const closed = { state: { phase: 'closed', suspects: [] }, trustedUntilMs: 5_700 };
    expect(story.blame).toMatchObject(closed);
    expect(mayStart(story.blame)).toBe(true);
  });

  it('calls behind a slow trial are refused until its deadline', () => {
    const story = due(open()).asked('y').trialHangs();
    expect(story.facts.circuit).toMatchObject({ scope: 'endpoint', count: 1, retryAtMonotonicMs: 9_999 });
  });

  it.each([
    ['in the turn of a canary, another one is wanted', 'y', () => open(), true],
    ['in the turn of a caller, the next caller is the trial', 'y', () => due(open()).asked('y').trialFails('y'), false],
    ['before anyone has succeeded, the next caller is the trial', 'a', () => openAtStart(), false],
  ])('a trial is dropped: %s', (_, owner, told, askCanary) => {
    const story = due(told()).asked(owner).is({ kind: 'trialDropped', jitter: 1 });
    expect(story.wantsCanary).toBe(askCanary);
    expect(mayStart(story.blame)).toBe('trial');
  });

  it('dropping one of two trials leaves the other in flight', () => {
    const story = due(open()).asked('y').asked('x').is({ kind: 'trialDropped', jitter: 1 });
    expect([story.wantsCanary, mayStart(story.blame)]).toEqual([false, false]);
  });

  it('all canaries are asked again once none is free; if there is still none, the turn is a caller’s', () => {
    const story = due(due(open()).asked('y').trialFails('y')).asked(undefined);
    expect([story.facts.asked, story.wantsCanary]).toEqual([[], true]);
    expect([story.asked(undefined).wantsCanary, mayStart(story.blame)]).toEqual([false, 'trial']);
  });

  it('resume closes it, and clears the suspects of a closed one', () => {
    for (const story of [due(open()), known().fails('ab')]) {
      story.is({ kind: 'resumed' });
      expect(story.facts).toMatchObject({ phase: 'closed', suspects: [] });
    }
  });
});

it('a request that was sent before the newest success is no evidence in a check, even if it fails after it', () => {
  const story = checking(REFUSED);
  expect(story.fails('d', DOWN, { number: 2 }).facts.failure).toBe(REFUSED);
  expect(story.fails('e', DOWN, { number: 9 }).facts.failure).toBe(DOWN);
});

it('a canary of the check before delays no trial', () => {
  const { blame } = checking().fails('d', errorWith({ failureScope: 'client' }));
  expect(blame.state).toMatchObject({ phase: 'open', outstanding: 0 });
  expect(trialDueAtMs(blame)).toBe(1_000);
});

it('the end of a pause changes nothing once the circuit has closed, and no canary counts as asked', () => {
  const story = open().trialSucceeds('z').is({ kind: 'due', isAwaited: true });
  expect([story.view, askedCanaries(story.blame)]).toEqual([['closed', '', 0, false], []]);
  expect(askedCanaries(checking().blame)).toEqual(['y']);
});

it('the pause of the endpoint stays short before anyone has succeeded, however many trials fail', () => {
  const story = openAtStart();
  for (const expectedMs of [1_000, 1_000, 1_000]) {
    story.is({ kind: 'due', isAwaited: true }).asked('a').trialFails('a');
    expect((story.facts.circuit as Circuit).retryAtMonotonicMs).toBe(expectedMs);
  }
});

describe('an owner that is forgotten', () => {
  it.each([
    ['a suspect', () => known().fails('ab'), 'a', { suspects: ['b'], canaries: ['y', 'x'] }],
    ['a canary', () => known().fails('ab'), 'y', { suspects: ['a', 'b'], canaries: ['x'] }],
    ['a canary that is asked', () => checking(), 'y', { canaries: ['x'], asked: [], outstanding: 1 }],
  ])('is no longer %s', (_, story, owner, expected) => {
    expect(story().is({ kind: 'forgotten', owner }).facts).toMatchObject(expected);
  });
});
