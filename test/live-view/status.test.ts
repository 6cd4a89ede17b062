import { describe, expect, it } from 'vitest';
import { causeIdOf, type OwnerFacts, Survey } from '../../src/live-view/status.ts';
import type { OwnerFailure } from '../../src/registry/reports.ts';
import type { RegistryStats } from '../../src/registry/stats.ts';

const NOW = 1_900_000_000_000;

const failure = (changes: Partial<OwnerFailure> = {}): OwnerFailure => {
  const known = { code: 'endpoint_unavailable', message: 'down', status: 503, failures: 1 } as const;
  return { ...known, sinceMs: NOW - 9, failedAtMs: NOW, retryAtMs: NOW + 9, ...changes };
};

const served = (inMs: number, more: Partial<OwnerFacts> = {}): OwnerFacts => {
  return { phase: 'fresh', expiresAtMs: NOW + inMs, ...more };
};

const circuit = { code: 'endpoint_unavailable', status: 503, sinceMs: NOW - 5, failedAtMs: NOW, failures: 3 } as const;
const open = { endpoint: { ...circuit, retryAtMs: NOW + 7, probing: false } };

function statusOf(
  owners: OwnerFacts[],
  pauses: Partial<RegistryStats['pauses']> = {},
  more: Partial<RegistryStats> = {},
) {
  const stats = { pauses: { owners: 0, ...pauses }, longestQueuedMs: 0, ...more } as RegistryStats;
  const survey = new Survey(stats);
  for (const owner of owners) survey.add(owner);
  return survey.result('crm', stats, NOW);
}

describe('owners', () => {
  it.each<[string, OwnerFacts, Partial<RegistryStats['pauses']>, number, string | undefined]>([
    ['with a token', served(1), {}, 0, undefined],
    ['with a token, while the circuit is open', served(1), open, 0, undefined],
    ['with a token that cannot be renewed', served(1, { failure: failure() }), {}, 0, 'endpoint_unavailable-503'],
    [
      'with a token that the API rejects',
      served(1, { failure: failure({ code: 'token_rejected' }) }),
      {},
      0,
      'token_rejected-503',
    ],
    ['without a token, with the next call', { phase: 'expired' }, {}, 0, undefined],
    ['whose first request is in flight', { phase: 'requesting' }, {}, 0, undefined],
    ['without a token, while the circuit is open', { phase: 'backing-off' }, open, 1, 'endpoint_unavailable-503'],
    ['that wait at an open circuit', { phase: 'requesting' }, open, 1, 'endpoint_unavailable-503'],
    [
      'whose rejected token has ended, while the circuit is open',
      { phase: 'expired', failure: failure({ code: 'token_rejected' }) },
      open,
      1,
      'endpoint_unavailable-503',
    ],
    ['that fail', { phase: 'backing-off', failure: failure() }, {}, 1, 'endpoint_unavailable-503'],
    [
      'with a rejected token, whose access key was refused since',
      served(1, {
        phase: 'rejected',
        failure: failure(),
        withoutService: { sinceMs: NOW, failedAtMs: NOW, hasLapsed: false },
      }),
      {},
      1,
      'endpoint_unavailable-503',
    ],
    [
      'that fail, and that nobody calls any more',
      { phase: 'expired', failure: failure(), withoutService: { sinceMs: NOW, failedAtMs: NOW, hasLapsed: true } },
      {},
      0,
      undefined,
    ],
    ['that failed and try again', { phase: 'requesting', failure: failure() }, {}, 1, 'endpoint_unavailable-503'],
    [
      'with a failure of their own in an outage',
      { phase: 'backing-off', failure: failure({ code: 'owner_refused', status: 400 }) },
      open,
      1,
      'owner_refused-400',
    ],
    [
      'whose last call the queue failed',
      { phase: 'empty', failure: failure({ code: 'queue_full' }) },
      {},
      1,
      'queue_full-503',
    ],
  ])('are counted as served or not: %s', (_, owner, pauses, unserved, cause) => {
    expect(statusOf([owner], pauses)).toMatchObject({ known: 1, unserved });
    expect(causeIdOf(owner, { owners: 0, ...pauses })).toBe(cause);
  });

  it('that wait for a request are counted apart', () => {
    expect(statusOf([{ phase: 'requesting' }, { phase: 'empty' }])).toMatchObject({
      known: 2,
      unserved: 0,
      waiting: 1,
    });
  });
});

describe('causes', () => {
  it('group owners by code and status, those without service first', () => {
    const { causes, service } = statusOf([
      served(1, { failure: failure({ sinceMs: NOW - 30 }) }),
      { phase: 'backing-off', failure: failure({ code: 'owner_refused', status: 400, retryAtMs: NOW + 20 }) },
      { phase: 'backing-off', failure: failure({ code: 'owner_refused', status: 400, sinceMs: NOW - 20 }) },
      served(1, { failure: failure({ retryAtMs: NOW + 3 }) }),
      { phase: 'requesting', failure: failure({ code: 'queue_timeout' }) },
    ]);
    expect(causes).toMatchObject([
      { id: 'owner_refused-400', owners: 2, unserved: 2, sinceMs: NOW - 20, retryAtMs: NOW + 9, scope: 'owner' },
      { id: 'queue_timeout-503', owners: 1, unserved: 1, scope: 'queue', probing: true },
      { id: 'endpoint_unavailable-503', owners: 2, unserved: 0, sinceMs: NOW - 30, retryAtMs: NOW + 3 },
    ]);
    expect(service).toBe('partly');
  });

  it('that are queues do not advise more concurrency while the answers of the service set the pace', () => {
    const late: OwnerFacts = { phase: 'backing-off', failure: failure({ code: 'queue_timeout' }) };
    const todoAt = (reason: 'quota' | 'overload') =>
      statusOf([late], {}, { pace: { perSecond: 5, reason } }).causes[0]?.todo;
    expect(todoAt('overload')).toMatch(/^Make fewer calls, share tokens .* answers with 429 or 503$/);
    expect(todoAt('quota')).toMatch(/raise concurrency/);
  });

  it('that are an open circuit and owners’ failures with its code and status count as one, which comes first', () => {
    const refusedOwner: OwnerFacts = { phase: 'backing-off', failure: failure({ code: 'owner_refused', status: 400 }) };
    const { causes, service } = statusOf(
      [
        refusedOwner,
        refusedOwner,
        { phase: 'backing-off', failure: failure({ message: 'the service is down', sinceMs: 0 }) },
      ],
      open,
    );
    expect(causes).toMatchObject([
      { scope: 'endpoint', message: 'the service is down', sinceMs: NOW - 5, retryAtMs: NOW + 7, owners: 1 },
      { id: 'owner_refused-400', owners: 2 },
    ]);
    expect(service).toBe('fails');
  });

  it('that are the client’s circuit have their own scope, and are shown without an owner', () => {
    const { endpoint } = open;
    expect(statusOf([], { client: { ...endpoint, code: 'client_refused', status: 401, probing: true } })).toMatchObject(
      {
        causes: [{ id: 'client_refused-401', scope: 'client', owners: 0, probing: true }],
      },
    );
  });

  it.each(['owner_refused', 'token_rejected', 'queue_timeout'] as const)(
    'such as %s leave the service working',
    (code) => {
      expect(statusOf([{ phase: 'empty', failure: failure({ code }) }]).service).toBe('works');
    },
  );
});

describe('the runway', () => {
  const runway = (...args: Parameters<typeof statusOf>) => statusOf(...args).runway;

  it('in an outage says when the first owner loses service, and when half of them do', () => {
    const owners = [1_000, 5_000, 9_000, 13_000].map((ms) => served(ms));
    expect(runway(owners, open)).toEqual({ owners: 4, firstAtMs: NOW + 1_000, halfAtMs: NOW + 5_000 });
    expect(runway([...owners, { phase: 'backing-off' }], open)?.halfAtMs).toBe(NOW + 5_000);
  });

  it('has no half where half have lost service already, or will not', () => {
    expect(runway([served(1_000), { phase: 'backing-off' }], open)).toEqual({ owners: 1, firstAtMs: NOW + 1_000 });
    expect(runway([served(1_000, { failure: failure() }), served(1), served(1)])).toEqual({
      owners: 1,
      firstAtMs: NOW + 1_000,
    });
  });

  it('is absent where tokens can be renewed, or never end', () => {
    expect(runway([served(1_000), served(1_000, { failure: failure({ code: 'token_rejected' }) })])).toBeUndefined();
    expect(runway([served(Number.POSITIVE_INFINITY)], open)).toBeUndefined();
  });
});

it('a status has the pace of the registry, if there is one', () => {
  const pace = { perSecond: 20, reason: 'overload' } as const;
  expect([statusOf([], {}, { pace }).pace, statusOf([]).pace]).toEqual([pace, undefined]);
});

it('a slow service is a state of its own, unless requests fail', () => {
  const slowService = { sinceMs: NOW, latencyMs: 6_000 };
  expect(statusOf([served(1)], {}, { slowService })).toMatchObject({ service: 'slow', slowService });
  const failing: OwnerFacts = { phase: 'backing-off', failure: failure() };
  expect(statusOf([failing], {}, { slowService })).toMatchObject({ service: 'partly', slowService });
  expect(statusOf([served(1)])).not.toHaveProperty('slowService');
});

it('advice for several owners speaks of them all', () => {
  const refused: OwnerFacts = { phase: 'backing-off', failure: failure({ code: 'owner_refused', status: 400 }) };
  expect(statusOf([refused]).causes[0]?.todo).toBe('Get a current access key for this owner');
  expect(statusOf([refused, refused]).causes[0]?.todo).toBe('Get a current access key for each of these owners');
});

it('causes of as many owners are in the same order whichever owner comes first, so that the first does not change places', () => {
  const pair = [401, 400].map((status): OwnerFacts => {
    return { phase: 'backing-off', failure: failure({ code: 'owner_refused', status }) };
  });
  for (const owners of [pair, pair.toReversed()])
    expect(statusOf(owners).causes.map(({ status }) => status)).toEqual([400, 401]);
});
