import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenErrorOptions } from '../../src/errors/owner-token-error.ts';
import {
  type Blame,
  type BlameEvent,
  type Circuit,
  initialBlame,
  mayStart,
  reduceBlame,
  refusingCircuit,
  trialDueAtMs,
  waitsUntilMs,
} from '../../src/failures/blame.ts';

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
    for (const owner of owners) {
      this.is({ kind: 'succeeded', owner, number: ++this.#number, wasRefused: false });
    }
    return this;
  }

  /** First failures of these owners. */
  fails(owners: string, error = DOWN, changes: Partial<Failure> = {}): this {
    for (const owner of owners) {
      const event = { owner, error, isTrial: false, ownerFailures: 0, jitter: 1, ...changes };
      this.is({ kind: 'failed', ...event });
    }
    return this;
  }

  trialHangs(): this {
    return this.is({ kind: 'slow', jitter: 1 });
  }

  asked(owner: string | undefined): this {
    return this.is(owner === undefined ? { kind: 'noCanaryFree', jitter: 1 } : { kind: 'trialSent', owner });
  }

  trialFails(owner: string, error = DOWN): this {
    return this.fails(owner, error, { isTrial: true });
  }

  get phase() {
    const { doubt } = this.blame;
    if (!doubt) return 'no doubt';
    return doubt.circuit ? 'circuit' : 'check';
  }

  /** All that is known. */
  get facts() {
    return { asked: [] as string[], ...this.blame, ...this.blame.doubt, phase: this.phase };
  }

  /** Phase, suspects, failed canaries, and whether a canary is wanted. */
  get view() {
    const { suspects, doubt } = this.blame;
    return [this.phase, suspects.join(''), doubt?.failedCanaries ?? 0, this.wantsCanary];
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
    expect(blame).toEqual(initialBlame(RANGES));
  });

  it('each success makes its owner the first canary; sixteen are kept', () => {
    const story = new Story().succeeds('a', 'b', 'c', 'a', 'a');
    expect(story.blame.canaries).toEqual(['a', 'c', 'b']);
    const many = Array.from({ length: 17 }, (_, n) => `owner ${n}`);
    expect(new Story().succeeds(...many).blame.canaries).toEqual(many.slice(1).reverse());
  });

  it('a success clears the suspects, but is no reason to trust the service', () => {
    const { blame } = known().fails('ab').succeeds('x');
    expect(blame).toMatchObject({ doubt: undefined, suspects: [], newestSuccess: 3, trustedUntilMs: -Infinity });
  });

  it('a success of a request that was sent earlier leaves the newest success as it is', () => {
    const story = known().is({ kind: 'succeeded', owner: 'z', number: 1, wasRefused: false });
    expect(story.blame.newestSuccess).toBe(2);
  });

  it.each<[string, () => Story, unknown[]]>([
    ['three first failures begin a check', () => known().fails('abc'), ['check', '', 0, true]],
    [
      'failures that speak of their owners make no suspects',
      () => known().fails('abcdef', REVOKED),
      ['no doubt', '', 0, false],
    ],
    [
      'failures that are not the first of their owners make no suspects',
      () => known().fails('abc', DOWN, { ownerFailures: 1 }),
      ['no doubt', '', 0, false],
    ],
    [
      'nine failures before anyone has succeeded open no circuit',
      () => new Story().fails('012345678'),
      ['no doubt', '012345678', 0, false],
    ],
    ['an owner is one suspect, however often it fails', () => known().fails('aaab'), ['no doubt', 'ab', 0, false]],
  ])('%s', (_, told, view) => {
    const story = told();
    expect(story.view).toEqual(view);
    expect(story.blame.doubt?.circuit).toBeUndefined();
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
    expect(story.view).toEqual(['circuit', '', 0, false]);
    expect(story.facts.circuit).toMatchObject({ scope: 'endpoint', count: 1, retryAtMonotonicMs: 500 });
  });

  it.each(['client', 'endpoint'] as const)('a given scope %s opens that circuit at once', (failureScope) => {
    for (const story of [new Story(), known(), checking()]) {
      story.fails('z', errorWith({ failureScope }), { ownerFailures: 1 });
      expect(story.facts).toMatchObject({ phase: 'circuit', circuit: { scope: failureScope, count: 1 } });
    }
  });
});

it('no canary is wanted after a success, after a trial was sent, or after an owner was forgotten', () => {
  const stories = [known(), checking().asked('x'), checking().is({ kind: 'forgotten', owner: 'x' })];
  expect(stories.map(({ wantsCanary }) => wantsCanary)).toEqual([false, false, false]);
});

describe('during a check by canaries', () => {
  it('no other request may start, and no trial is due', () => {
    for (const { blame } of [known().fails('abc'), checking()]) {
      expect([mayStart(blame), trialDueAtMs(blame)]).toEqual([false, undefined]);
    }
  });

  it('no canary of an earlier check counts', () => {
    const story = checking().trialFails('y').asked('x').succeeds('z');
    story.nowMs = 5_000;
    story.fails('def');
    expect(story.facts).toMatchObject({ phase: 'check', asked: [], outstanding: 0, failedCanaries: 0 });
  });

  it('a canary that succeeds proves that the service works, and for five seconds three suspects begin no other check', () => {
    const story = checking();
    story.nowMs = 50;
    story.succeeds('y').fails('def');
    story.nowMs = 5_049;
    expect(story.fails('g').view).toEqual(['no doubt', 'defg', 0, false]);
    expect(story.blame.trustedUntilMs).toBe(5_050);
    story.nowMs = 5_050;
    expect(story.fails('h').view).toEqual(['check', '', 0, true]);
    expect(story.succeeds('x').blame.trustedUntilMs).toBe(10_050);
  });

  it('what failed during these seconds counts afterwards: any failure begins the check, also one that is not the first', () => {
    const story = checking().succeeds('y').fails('def');
    story.nowMs = 5_000;
    expect(story.fails('d', DOWN, { ownerFailures: 1 }).view).toEqual(['check', '', 0, true]);
  });

  it('the thirtieth suspect begins one at any time', () => {
    const owners = Array.from({ length: 30 }, (_, n) => String.fromCodePoint(0x1000 + n));
    const story = checking().succeeds('y').fails(owners.slice(1).join(''));
    expect(story.phase).toBe('no doubt');
    expect(story.fails(owners[0] as string).view).toEqual(['check', '', 0, true]);
  });

  it('an answer that concerns only the canary proves that the service works, too', () => {
    const story = checking();
    story.nowMs = 50;
    story.trialFails('y', REVOKED);
    expect(story.view).toEqual(['no doubt', '', 0, false]);
    expect(story.facts).toMatchObject({ phase: 'no doubt', trustedUntilMs: 5_050 });
  });

  it.each<[string, () => Story, unknown[]]>([
    [
      'if the failure of a canary is put at the endpoint, no other canary is asked',
      () => checking().trialFails('y', errorWith({ failureScope: 'endpoint' })),
      ['circuit', '', 0, false],
    ],
    ['if the first canary hangs, another one is asked', () => checking().trialHangs(), ['check', '', 1, true]],
    [
      'if both canaries hang, the circuit opens',
      () => checking().trialHangs().asked('x').trialHangs(),
      ['circuit', '', 0, false],
    ],
    [
      'if two canaries are in flight and one fails, the other one decides',
      () => checking().asked('x').trialFails('y'),
      ['check', '', 1, false],
    ],
    [
      'if one canary failed and the other one hangs, the circuit opens',
      () => checking().trialFails('y').asked('x').trialHangs(),
      ['circuit', '', 0, false],
    ],
    [
      'if the first canary is dropped, another one is asked',
      () => checking().is({ kind: 'trialDropped', jitter: 1 }),
      ['check', '', 0, true],
    ],
    [
      'if one canary failed and the other one is dropped, a third is asked',
      () => checking().trialFails('y').asked('x').is({ kind: 'trialDropped', jitter: 1 }),
      ['check', '', 1, true],
    ],
    [
      'if the canary is dropped after all were forgotten, another one is looked for, so that the circuit opens without one',
      () => checking().is({ kind: 'forgotten', owner: undefined }).is({ kind: 'trialDropped', jitter: 1 }),
      ['check', '', 0, true],
    ],
    [
      'if one canary failed and no other one is free, the circuit opens',
      () => checking().trialFails('y').asked(undefined),
      ['circuit', '', 0, false],
    ],
    [
      'if one canary is in flight and no other one is free, that one decides',
      () => checking().asked(undefined),
      ['check', '', 0, false],
    ],
    ['if more owners fail, nothing changes', () => checking().fails('ef'), ['check', '', 0, false]],
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

  it('canaries and callers alternate as trials', () => {
    const story = open();
    const wanted: unknown[] = [];
    for (let round = 0; round < 4; round++) {
      wanted.push(due(story).wantsCanary);
      story.asked('y').trialFails('y');
    }
    expect(wanted).toEqual([true, false, true, false]);
  });

  it('a caller’s trial for which none waits is a canary’s', () => {
    const story = due(open(), false).asked('y').trialFails('y');
    expect(due(story, false).wantsCanary).toBe(true);
    expect(due(openAtStart(), false).wantsCanary).toBe(false);
  });

  it('further failures of owners change nothing, even one with another given scope', () => {
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
      phase: 'circuit',
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
    expect(story.blame).toMatchObject({ doubt: undefined, suspects: [], trustedUntilMs: 5_700 });
    expect(mayStart(story.blame)).toBe(true);
  });

  it('a trial that hangs counts as failed, and the next one is due after a pause', () => {
    const story = due(open()).asked('y').trialHangs();
    expect(story.facts).toMatchObject({ circuit: { scope: 'endpoint', count: 2 }, isDue: false, outstanding: 0 });
  });

  it.each([
    ['another canary is wanted', 'y', () => open(), true],
    ['as a caller’s trial too', 'y', () => due(open()).asked('y').trialFails('y'), true],
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

  it('all canaries are asked again once none is free; if none still is, the trial is a caller’s', () => {
    const story = due(due(open()).asked('y').trialFails('y')).asked(undefined);
    expect([story.facts.asked, story.wantsCanary]).toEqual([[], true]);
    expect([story.asked(undefined).wantsCanary, mayStart(story.blame)]).toEqual([false, 'trial']);
  });

  it('resume closes it', () => {
    expect(due(open()).is({ kind: 'resumed' }).view).toEqual(['no doubt', '', 0, false]);
  });

  it('a queued request waits for it until a second after it was queued, or after the circuit opened', () => {
    const circuit = open().facts.circuit as Circuit;
    expect([-500, 0, 300].map((queuedAtMs) => waitsUntilMs(circuit, queuedAtMs))).toEqual([1_000, 1_000, 1_300]);
  });

  it.each([
    ['of a refused client is readmitted', true, 700],
    ['of an owner that failed otherwise is not', false, Number.NEGATIVE_INFINITY],
  ])('a success %s', (_, wasRefused, readmittedAtMs) => {
    const story = open();
    story.nowMs = 700;
    story.is({ kind: 'succeeded', owner: 'z', number: 99, wasRefused });
    expect(story.blame).toMatchObject({ readmittedAtMs, doubt: undefined });
  });
});

it('a canary of the check before delays no trial', () => {
  const { blame } = checking().fails('d', errorWith({ failureScope: 'client' }));
  expect(blame.doubt).toMatchObject({ circuit: { scope: 'client' }, outstanding: 0 });
  expect(trialDueAtMs(blame)).toBe(1_000);
});

it('the end of a pause changes nothing once the circuit has closed, and no canary counts as asked', () => {
  const story = open().succeeds('z').is({ kind: 'due', isAwaited: true });
  expect(story.view).toEqual(['no doubt', '', 0, false]);
  expect([story.facts.asked, checking().facts.asked]).toEqual([[], ['y']]);
});

describe('before anyone has succeeded', () => {
  const trial = (story: Story) => story.is({ kind: 'due', isAwaited: true }).asked('a');

  it.each([
    ['of the endpoint', DOWN, [500, 500, 1_000, 1_000, 1_000, 1_000]],
    ['of the client', REFUSED, [1_000, 1_000, 1_000, 1_000, 1_000, 1_000]],
  ])('the pause %s stays at a second, however many trials fail', (_, error, expected) => {
    const story = new Story().fails('0123456789', error);
    const lengthsMs = expected.map(() => {
      const { retryAtMonotonicMs } = story.facts.circuit as Circuit;
      trial(story).trialFails('a', error);
      return retryAtMonotonicMs;
    });
    expect(lengthsMs).toEqual(expected);
  });

  it('a pause that was set to more than a second stays at its base', () => {
    const blame = initialBlame<string>({ ...RANGES, endpoint: { baseMs: 4_000, capMs: 30_000 } });
    const failure = { kind: 'failed', error: DOWN, ownerFailures: 0, jitter: 1 } as const;
    const fail = (owner: string, isTrial: boolean) => reduceBlame(blame, { ...failure, owner, isTrial }, 0);
    for (const owner of '0123456789') fail(owner, false);
    for (let n = 0; n < 3; n++) fail('a', true);
    expect(blame.doubt?.circuit).toMatchObject({ count: 4, retryAtMonotonicMs: 4_000 });
  });

  it('a slow trial keeps nobody waiting: the next pause begins, and then its outcome is no trial’s', () => {
    const story = trial(openAtStart()).trialHangs();
    expect(story.blame.doubt).toMatchObject({ circuit: { count: 2, retryAtMonotonicMs: 500 }, outstanding: 0 });
    story.is({ kind: 'due', isAwaited: true });
    expect(mayStart(story.blame)).toBe('trial');
  });
});

it('an owner that gets a token of its own is no suspect any longer, and may become one again', () => {
  const story = known().fails('ab').succeeds('a').fails('ca');
  expect(story.view).toEqual(['no doubt', 'ca', 0, false]);
  expect(story.fails('b').phase).toBe('check');
});

it('a token of any owner ends a check', () => {
  expect(checking().succeeds('a').view).toEqual(['no doubt', '', 0, false]);
});

describe('an owner that is forgotten', () => {
  it.each([
    ['a suspect', () => known().fails('ab'), 'a', { suspects: ['b'], canaries: ['y', 'x'] }],
    ['a canary', () => known().fails('ab'), 'y', { suspects: ['a', 'b'], canaries: ['x'] }],
    ['a canary that is asked', () => checking(), 'y', { canaries: ['x'], asked: [], outstanding: 1 }],
    ['anything, if all are', () => checking().fails('ab'), undefined, { canaries: [], asked: [], suspects: [] }],
  ])('is no longer %s', (_, story, owner, expected) => {
    expect(story().is({ kind: 'forgotten', owner }).facts).toMatchObject(expected);
  });
});
