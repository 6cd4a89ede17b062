import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OPERATIONS } from '../../../src/sandbox/control/operations.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/index.ts';
import { askToken, type Call, call, echo, tokenFor } from '../client.ts';

let sandbox: Sandbox;

beforeEach(async () => {
  sandbox = await startSandbox({ owners: 2, lifetimeSeconds: 600 });
});

afterEach(() => sandbox.close());

const ask = (path: string, options: Call = {}) => call(`${sandbox.portalUrl}${path}`, options);

function write(method: string, path: string, body: unknown = {}) {
  const headers = { 'content-type': 'application/json' };
  return ask(path, { method, headers, body: JSON.stringify(body) });
}

describe('the interface of the control plane', () => {
  /** A body for each operation that takes one, and a path with names that exist. */
  const bodies: Record<string, object> = {
    'POST /api/tokens/revoke': { all: true },
    'POST /api/faults': { kind: 'silence' },
    'POST /api/seed': { owners: 3 },
    'PATCH /api/keys/{id}': { enabled: true },
    'PATCH /api/client': { enabled: true },
  };
  const samples: Record<string, string> = {
    '/api/requests/{id}': '/api/requests/1',
    '/api/owners/{id}': '/api/owners/owner-001',
    '/api/owners/{id}/keys': '/api/owners/owner-001/keys',
    '/api/keys/{id}': '/api/keys/owner-001-key',
    '/api/keys/{id}/revoke': '/api/keys/owner-001-key/revoke',
    '/api/faults/{id}': '/api/faults/mine',
    '/api/scenarios/{name}': '/api/scenarios/cold-start',
    '/api/scenarios/{name}/run': '/api/scenarios/cold-start/run',
  };

  const operations = OPERATIONS;

  it.each(operations.filter(({ path }) => path !== '/api/events' && !path.endsWith('/run')))(
    'answers $method $path',
    async ({ method, path, body }) => {
      await tokenFor(sandbox);
      if (path === '/api/faults/{id}') sandbox.faults.add({ kind: 'latency', ms: 0, id: 'mine' });
      const target = samples[path] ?? path;
      const reply = body ? await write(method, target, bodies[`${method} ${path}`]) : await ask(target, { method });
      expect(reply.status, reply.text).toBe(200);
      expect(reply.json).toBeInstanceOf(Object);
    },
  );

  it('answers by no other method, and at no other path', async () => {
    const listed = operations.map(({ method, path }) => `${method} ${path}`);
    expect(new Set(listed).size).toBe(listed.length);
    for (const { path } of operations) {
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
        if (listed.includes(`${method} ${path}`)) continue;
        const reply = await write(method, samples[path] ?? path);
        expect(reply.status, `${method} ${path}`).toBe(405);
        expect(reply.headers.allow).toBeTruthy();
      }
    }
    expect((await ask('/api/elsewhere')).status).toBe(404);
  });

  it('refuses members of a body and of a query that are not described, and names those that are', async () => {
    expect((await write('POST', '/api/seed', { ownres: 3 })).json.message).toContain(
      'unknown option; expected one of owners',
    );
    expect((await write('POST', '/api/seed', { owners: '3' })).json.message).toContain('owners: expected an integer');
    expect((await ask('/api/requests?ownre=x')).json.message).toMatch(/ownre: unknown option; expected one of .*owner/);
    expect((await ask('/api/requests?limit=many')).json.message).toContain('limit: expected a number');
    for (const body of ['', '[]', 'null', '{', '"x"']) {
      const headers = { 'content-type': 'application/json' };
      expect((await ask('/api/seed', { method: 'POST', headers, body })).status).toBe(400);
    }
    expect((await write('POST', '/api/faults', { kind: 'slience' })).json.message).toContain('did you mean silence?');
    expect((await write('PATCH', '/api/profile', { shpe: 'odd' })).json.message).toMatch(
      /shpe: unknown option; expected one of .*shape/,
    );
  });
});

describe('owners, access keys and credentials', () => {
  it('are added, changed, disabled and revoked, with effect', async () => {
    const { json: owner } = await write('POST', '/api/owners', { id: 'mine', name: 'Mine' });
    expect(owner).toMatchObject({
      id: 'mine',
      name: 'Mine',
      enabled: true,
      accessKeys: [{ id: 'mine-key', enabled: true }],
    });
    const { json: credentials } = await ask('/api/credentials?owner=mine');
    expect(credentials).toMatchObject({ baseUrl: sandbox.url, clientId: sandbox.clientId, owner: 'mine' });
    const token = await tokenFor(sandbox, credentials.accessKey);
    expect((await echo(sandbox, token)).json).toEqual({ owner: 'mine' });

    await write('PATCH', '/api/owners/mine', { enabled: false });
    expect((await echo(sandbox, token)).status).toBe(401);
    expect((await askToken(sandbox, credentials.accessKey)).json.error).toBe('invalid_grant');
    await write('PATCH', '/api/owners/mine', { enabled: true, name: 'Still mine' });
    expect((await echo(sandbox, token)).status).toBe(200);

    const [key] = owner.accessKeys;
    await write('PATCH', `/api/keys/${key.id}`, { enabled: false });
    expect((await askToken(sandbox, credentials.accessKey)).status).toBe(400);
    const { json: renewed } = await write('POST', '/api/owners/mine/keys');
    expect(renewed.accessKeys).toHaveLength(2);
    await write('POST', `/api/keys/${key.id}/revoke`);
    const { json: current } = await ask('/api/credentials?owner=mine');
    expect(current.accessKey).not.toBe(credentials.accessKey);
    expect((await askToken(sandbox, current.accessKey)).status).toBe(200);
  });

  it('rotates the client secret with an overlap, and disables the client', async () => {
    const old = sandbox.clientSecret;
    const { json: rotated } = await write('POST', '/api/client/rotate', { overlapMs: 60_000 });
    expect(rotated).toMatchObject({ clientId: sandbox.clientId, enabled: true, secrets: [{}, {}] });
    expect((await ask('/api/state')).json.client).toEqual(rotated);
    expect((await askToken(sandbox, undefined, { client_secret: old })).status).toBe(200);
    const { json: again } = await write('POST', '/api/client/rotate');
    expect(again.secrets).toHaveLength(1);
    expect((await askToken(sandbox, undefined, { client_secret: old })).json.error).toBe('invalid_client');
    const token = await tokenFor(sandbox);
    await write('PATCH', '/api/client', { enabled: false });
    expect((await askToken(sandbox)).json.error).toBe('unauthorized_client');
    expect((await echo(sandbox, token)).status).toBe(401);
    expect((await write('PATCH', '/api/client', {})).json.message).toContain('enabled: required');
  });

  it('need unique and valid names, and those that do not exist are not found', async () => {
    expect((await write('POST', '/api/owners', { id: 'owner-001' })).status).toBe(400);
    expect((await write('POST', '/api/owners', { id: 'a b' })).status).toBe(400);
    expect((await write('POST', '/api/owners', { name: 'x'.repeat(101) })).status).toBe(400);
    expect((await write('PATCH', '/api/owners/owner-001', { name: 'x'.repeat(101) })).status).toBe(400);
    expect((await write('PATCH', '/api/owners/nobody', {})).json).toMatchObject({ error: 'not_found' });
    expect((await write('POST', '/api/keys/sbx_key_secret/revoke')).text).not.toContain('sbx_key_secret');
  });
});

describe('the control plane', () => {
  it('lists requests by filter, one by number, and clears them', async () => {
    await tokenFor(sandbox, sandbox.accessKeys[0]);
    await tokenFor(sandbox, sandbox.accessKeys[1]);
    await tokenFor(sandbox, sandbox.accessKeys[1]);
    const ids = async (query: string) => (await ask(`/api/requests${query}`)).json.map(({ id }: { id: number }) => id);
    expect(await ids('')).toEqual([1, 2, 3]);
    expect(await ids('?owner=owner-002')).toEqual([2, 3]);
    expect(await ids('?wasted=true')).toEqual([3]);
    expect(await ids('?limit=1')).toEqual([3]);
    expect(await ids('?kind=echo')).toEqual([]);
    expect((await ask('/api/requests?kind=tokens')).json.message).toContain('token, echo');
    expect((await ask('/api/requests?outcome=good')).json.message).toContain('issued');
    expect((await ask('/api/requests/2')).json).toMatchObject({ id: 2, owner: 'owner-002', outcome: 'issued' });
    expect((await ask('/api/requests', { method: 'DELETE' })).json).toMatchObject({ total: 0 });
    expect((await ask('/api/requests/2')).status).toBe(404);
  });

  it('revokes tokens by fingerprint, by owner, and all', async () => {
    const token = await tokenFor(sandbox);
    const { tokens } = (await ask('/api/state')).json.picture.lanes[0];
    expect(tokens).toHaveLength(1);
    const { fingerprint } = tokens[0];
    expect((await write('POST', '/api/tokens/revoke', { fingerprint })).json).toEqual({ revoked: 1 });
    expect((await echo(sandbox, token)).status).toBe(401);
    await tokenFor(sandbox);
    expect((await write('POST', '/api/tokens/revoke', { owner: 'owner-001' })).json).toEqual({ revoked: 1 });
    await tokenFor(sandbox);
    expect((await write('POST', '/api/tokens/revoke', { all: true })).json).toEqual({ revoked: 1 });
    expect((await write('POST', '/api/tokens/revoke', { all: true, owner: 'x' })).status).toBe(400);
    expect((await write('POST', '/api/tokens/revoke')).status).toBe(400);
  });

  it('tries a request, and shows no secret', async () => {
    const { json, text } = await write('POST', '/api/try', { owner: 'owner-002' });
    expect(json).toMatchObject({ status: 200, echoStatus: 200, echoOwner: 'owner-002' });
    expect(json.body).toContain('•••');
    expect(text).not.toContain('sbx_');
    for (const shape of ['odd', 'minimal'] as const) {
      sandbox.setProfile({ shape });
      expect((await write('POST', '/api/try')).json).toMatchObject({ status: 200, echoStatus: 200 });
    }
    sandbox.setProfile({ shape: 'rfc6749', tokenFormat: 'jwt' });
    expect((await write('POST', '/api/try')).json.body).toBe(
      '{"access_token":"•••","token_type":"Bearer","expires_in":600}',
    );
    // Over an established connection: its code depends on nothing else on this machine, unlike that of a closed port.
    sandbox.faults.add({ kind: 'reset', at: 'before_headers' });
    expect((await write('POST', '/api/try')).json).toEqual({ socketError: 'ECONNRESET', body: '' });
  });

  it('takes the sandbox back to the start on a reset', async () => {
    const before = [sandbox.clientSecret, ...sandbox.accessKeys];
    const token = await tokenFor(sandbox);
    sandbox.faults.add({ kind: 'silence' });
    sandbox.rotateClientSecret();
    sandbox.setProfile({ shape: 'odd' });
    sandbox.addOwner();
    sandbox.revokeAccessKey(sandbox.accessKeys[0] ?? '');
    sandbox.clock.freeze();
    const { json: state } = await write('POST', '/api/reset');
    expect(state).toMatchObject({
      faults: [],
      requests: [],
      picture: { seconds: [], bands: [] },
      profile: { shape: 'rfc6749', lifetimeSeconds: 600 },
    });
    expect([sandbox.clientSecret, ...sandbox.accessKeys]).toEqual(before);
    expect(sandbox.clock.frozen).toBe(false);
    expect((await echo(sandbox, token)).status).toBe(401);
    expect((await askToken(sandbox)).status).toBe(200);
  });

  it('reports whether it is alive, and whether it is ready', async () => {
    expect((await ask('/livez')).json).toEqual({ status: 'ok', service: 'owner-token-registry sandbox portal' });
    expect((await ask('/readyz')).status).toBe(200);
    sandbox.faults.add({ kind: 'refuse' });
    expect((await ask('/readyz')).status).toBe(503);
    expect((await ask('/livez')).status).toBe(200);
  });

  it('is out of reach of every fault', async () => {
    for (const rule of [{ kind: 'silence' }, { kind: 'refuse' }] as const) {
      sandbox.faults.add({ ...rule, target: { path: 'all' } });
    }
    expect((await ask('/api/faults', { method: 'DELETE' })).status).toBe(200);
    expect((await askToken(sandbox)).status).toBe(200);
  });

  it('shows secrets only in /api/credentials', async () => {
    const token = await tokenFor(sandbox);
    await echo(sandbox, token);
    const answers: string[] = [];
    for (const { method, path } of OPERATIONS) {
      const isPublic = method === 'GET' && path !== '/api/events' && path !== '/api/credentials';
      if (isPublic)
        answers.push(
          (await ask(path.replace('/api/requests/{id}', '/api/requests/1').replace('{id}', 'owner-001'))).text,
        );
    }
    for (const secret of [token, sandbox.clientSecret, ...sandbox.accessKeys])
      expect(answers.join()).not.toContain(secret);
  });
});
