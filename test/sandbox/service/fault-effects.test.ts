import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OwnerTokenRegistry, TokenEndpoint } from '../../../src/index.ts';
import { type FaultRule, type Sandbox, startSandbox } from '../../../src/sandbox/index.ts';
import { FAULT_KIND_NAMES } from '../../../src/sandbox/state/fault-kinds.ts';

/** Every kind of fault as the library sees it: what it takes it for, over real sockets. */

let sandbox: Sandbox;

beforeEach(async () => {
  sandbox = await startSandbox({ owners: 2 });
});

afterEach(() => sandbox.close());

const cases: [FaultRule, seen: object | 'token'][] = [
  [
    { kind: 'status', status: 500 },
    { code: 'endpoint_unavailable', status: 500 },
  ],
  [
    { kind: 'status', status: 429, retryAfter: 7 },
    { code: 'rate_limited', status: 429, retryAfterMs: 7000 },
  ],
  [
    { kind: 'status', status: 401 },
    { code: 'client_refused', status: 401, oauthError: 'invalid_client' },
  ],
  [
    { kind: 'status', status: 400, body: { error: 'invalid_grant' } },
    { code: 'owner_refused', status: 400 },
  ],
  [{ kind: 'status', status: 200, body: {} }, { code: 'invalid_response' }],
  [{ kind: 'latency', ms: 5 }, 'token'],
  [{ kind: 'refuse' }, { code: 'endpoint_unavailable', failureScope: 'endpoint' }],
  [
    { kind: 'refuse', when: { next: 2 } },
    { code: 'endpoint_unavailable', failureScope: 'owner' },
  ],
  [{ kind: 'silence' }, { code: 'endpoint_unavailable' }],
  [{ kind: 'stall', at: 'before_headers' }, { code: 'endpoint_unavailable' }],
  [{ kind: 'stall', at: 'after_headers' }, { code: 'endpoint_unavailable' }],
  [{ kind: 'drip', everyMs: 60_000 }, { code: 'endpoint_unavailable' }],
  [{ kind: 'drip', bytes: 40, everyMs: 1 }, 'token'],
  [{ kind: 'truncate' }, { code: 'endpoint_unavailable' }],
  [{ kind: 'reset', at: 'before_headers' }, { code: 'endpoint_unavailable' }],
  [{ kind: 'reset', at: 'in_body' }, { code: 'endpoint_unavailable' }],
  [{ kind: 'garbage' }, { code: 'invalid_response' }],
  [{ kind: 'wrong_gzip' }, { code: 'invalid_response' }],
  [{ kind: 'wrong_gzip', how: 'cut' }, { code: 'invalid_response' }],
  [{ kind: 'wrong_gzip', how: 'corrupt' }, { code: 'invalid_response' }],
  [{ kind: 'redirect' }, { code: 'redirect_refused' }],
  [{ kind: 'oversized_headers' }, { code: 'invalid_response' }],
  [{ kind: 'oversized_body' }, { code: 'invalid_response' }],
  [{ kind: 'wrong_owner_token' }, 'token'],
];

describe('the library and each kind of fault', () => {
  /** Of these nothing ends but by the caller's own deadline. */
  const endless = (rule: FaultRule) =>
    ['silence', 'stall'].includes(rule.kind) || (rule.kind === 'drip' && !rule.bytes);

  it.each(cases)('%j is seen as %j', async (rule, seen) => {
    sandbox.faults.add(rule);
    const { url: baseUrl, clientId, clientSecret } = sandbox;
    const source = new TokenEndpoint({ baseUrl, clientId, clientSecret, timeoutMs: endless(rule) ? 200 : 10_000 });
    await using registry = new OwnerTokenRegistry({ source });
    const got = registry.getToken(sandbox.accessKeys[0] ?? '');
    if (seen === 'token') expect((await got).value).toMatch(/^sbx_/);
    else await expect(got).rejects.toMatchObject(seen);
    expect(sandbox.ledger.count({ kind: 'other' }), 'requests that a redirect led astray').toBe(0);
  });

  it('has every kind', () => {
    expect(new Set(cases.map(([rule]) => rule.kind))).toEqual(new Set(FAULT_KIND_NAMES));
  });
});
