import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { OwnerTokenRegistry, TokenEndpoint } from '../../src/index.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/index.ts';
import { settle } from '../helpers/manual-clock.ts';
import { askToken, call, echo, rawTokenRequest, tokenFor } from './client.ts';

/** Because the machine may be busy. */
const PATIENT = { timeout: 10_000 };

let sandbox: Sandbox;

beforeEach(async () => {
  sandbox = await startSandbox({ owners: 3, lifetimeSeconds: 600 });
});

afterEach(() => sandbox.close());

const tokenUrl = () => `${sandbox.url}/auth/v1/token`;
const JSON_TYPE = { 'content-type': 'application/json' };

describe('a token request', () => {
  it('with all four fields gets an opaque token in the form of RFC 6749', async () => {
    const reply = await askToken(sandbox);
    expect(reply.status).toBe(200);
    expect(reply.json).toEqual({ access_token: expect.stringMatching(/^sbx_/), token_type: 'Bearer', expires_in: 600 });
    expect(reply.headers).toMatchObject({ 'content-type': 'application/json', 'cache-control': 'no-store' });
  });

  it.each(['grant_type', 'client_id', 'client_secret', 'appliance_owner_scope'])(
    'without %s is refused by name',
    async (field) => {
      for (const value of [undefined, '', 7, null, ['x']]) {
        const reply = await askToken(sandbox, undefined, { [field]: value });
        expect(reply.status).toBe(400);
        expect(reply.json).toMatchObject({ error: 'invalid_request', field });
        expect(reply.json.error_description).toContain(field);
      }
    },
  );

  it.each([
    ['grant_type', 400, 'unsupported_grant_type'],
    ['client_id', 401, 'invalid_client'],
    ['client_secret', 401, 'invalid_client'],
    ['appliance_owner_scope', 400, 'invalid_grant'],
  ])('with a wrong %s is refused by name, never by value', async (field, status, error) => {
    const reply = await askToken(sandbox, undefined, { [field]: 'canary-value' });
    expect(reply.status).toBe(status);
    expect(reply.json).toMatchObject({ error, field });
    expect(reply.text).not.toContain('canary');
    expect(sandbox.ledger.entries()).toEqual([expect.objectContaining({ outcome: 'refused', status, error, field })]);
    expect(JSON.stringify(sandbox.ledger.entries())).not.toContain('canary');
  });

  it('as a form is answered with the JSON that was meant', async () => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const body = 'grant_type=client_credentials&client_secret=canary';
    const reply = await call(tokenUrl(), { method: 'POST', headers, body });
    expect(reply.status).toBe(415);
    expect(reply.json.expected).toEqual({
      grant_type: 'client_credentials',
      client_id: '<CLIENT_ID>',
      client_secret: '<CLIENT_SECRET>',
      appliance_owner_scope: '<ACCESS_KEY>',
    });
    expect(reply.text).not.toContain('canary');
  });

  it.each(['', 'null', '[]', '"text"', '{', '\ufeff{}'])('with the body %j is refused', async (body) => {
    const reply = await call(tokenUrl(), { method: 'POST', headers: JSON_TYPE, body });
    expect(reply.status).toBe(400);
    expect(reply.json.error).toBe('invalid_request');
  });

  it('over the body cap is refused with 413, and by another method with 405', async () => {
    const large = JSON.stringify({ padding: 'x'.repeat(20_000) });
    expect((await call(tokenUrl(), { method: 'POST', headers: JSON_TYPE, body: large })).status).toBe(413);
    const got = await call(tokenUrl());
    expect([got.status, got.headers.allow]).toEqual([405, 'POST']);
    expect((await call(`${sandbox.url}/elsewhere`)).status).toBe(404);
  });
});

describe('the echo resource', () => {
  it('names the owner of the token, and flags one that was not expected', async () => {
    const [first, second] = sandbox.owners;
    const token = await tokenFor(sandbox, first?.accessKey);
    expect((await echo(sandbox, token)).json).toEqual({ owner: first?.id });
    expect((await echo(sandbox, token, { 'x-expected-owner': first?.id })).json).toEqual({ owner: first?.id });
    const flagged = await echo(sandbox, token, { 'x-expected-owner': second?.id });
    expect(flagged.json).toEqual({ owner: first?.id, wrongOwner: true });
    expect(sandbox.ledger.count({ outcome: 'wrong_owner' })).toBe(1);
    expect(sandbox.ownerOf(first?.accessKey ?? '')).toBe(first?.id);
  });

  it('refuses a call without a token, with an unknown one, and with an ended one', async () => {
    expect((await call(`${sandbox.url}/echo`)).status).toBe(401);
    expect((await echo(sandbox, 'sbx_made-up')).status).toBe(401);
    const token = await tokenFor(sandbox);
    sandbox.clock.freeze();
    sandbox.clock.advance(599_000);
    expect((await echo(sandbox, token)).status).toBe(200);
    sandbox.clock.advance(2000);
    const late = await echo(sandbox, token);
    expect(late.status).toBe(401);
    expect(late.headers['www-authenticate']).toContain('invalid_token');
  });
});

describe('revoking', () => {
  it('an access key ends its tokens too, and nobody else’s', async () => {
    const [gone = '', stays = ''] = sandbox.accessKeys;
    const tokens = [await tokenFor(sandbox, gone), await tokenFor(sandbox, stays)] as const;
    sandbox.revokeAccessKey(gone);
    expect((await echo(sandbox, tokens[0])).status).toBe(401);
    expect((await echo(sandbox, tokens[1])).status).toBe(200);
    expect((await askToken(sandbox, gone)).json.error).toBe('invalid_grant');
    expect((await askToken(sandbox, stays)).status).toBe(200);
    expect(sandbox.accessKeys).toContain(gone);
    expect(() => sandbox.revokeAccessKey('unknown')).toThrow('not an access key');
  });

  it('an old secret takes effect at its time, also after a second rotation with a longer overlap', async () => {
    sandbox.clock.freeze();
    const oldest = sandbox.clientSecret;
    const old = sandbox.rotateClientSecret({ overlapMs: 1000 });
    sandbox.rotateClientSecret({ overlapMs: 5000 });
    const statuses = async () => [
      (await askToken(sandbox, undefined, { client_secret: oldest })).status,
      (await askToken(sandbox, undefined, { client_secret: old })).status,
    ];
    expect(await statuses()).toEqual([200, 200]);
    sandbox.clock.advance(1000);
    expect(await statuses()).toEqual([401, 200]);
    sandbox.clock.advance(4000);
    expect(await statuses()).toEqual([401, 401]);
  });
});

describe('the ledger', () => {
  it('counts by owner and outcome, and says what was wasted', async () => {
    const [first, second] = sandbox.owners;
    sandbox.clock.freeze();
    const token = await tokenFor(sandbox, first?.accessKey);
    await tokenFor(sandbox, second?.accessKey);
    expect(sandbox.ledger.wasted).toBe(0);
    await tokenFor(sandbox, first?.accessKey);
    expect(sandbox.ledger.wasted).toBe(1);
    sandbox.clock.advance(301_000);
    await tokenFor(sandbox, first?.accessKey);
    expect(sandbox.ledger.wasted).toBe(1);
    await echo(sandbox, token);
    expect(sandbox.ledger.count({ kind: 'token', owner: first?.id ?? '' })).toBe(3);
    expect(sandbox.ledger.count({ outcome: 'accepted' })).toBe(1);
    expect(sandbox.ledger.summary()).toEqual({
      total: 5,
      wasted: 1,
      ownersServed: 2,
      byOutcome: { issued: 4, accepted: 1 },
    });
  });

  it('counts every attempt for an owner with a good token as wasted, those that fail too', async () => {
    await tokenFor(sandbox);
    sandbox.faults.add({ kind: 'status', status: 503 });
    for (let n = 0; n < 30; n++) await askToken(sandbox);
    expect(sandbox.ledger.count({ outcome: 'server_error', wasted: true })).toBe(30);
    expect(sandbox.ledger.wasted).toBe(30);
    await askToken(sandbox, sandbox.accessKeys[1]);
    expect(sandbox.ledger.wasted).toBe(30);
  });

  it('counts nothing as wasted for an owner whose token was revoked or refused', async () => {
    sandbox.revokeToken(await tokenFor(sandbox));
    await tokenFor(sandbox);
    expect(sandbox.ledger.wasted).toBe(0);
  });

  it('counts nothing as wasted for an owner whose token was refused without reason', async () => {
    const token = await tokenFor(sandbox);
    const id = sandbox.faults.add({ kind: 'status', status: 401, target: { path: 'echo' } });
    expect((await echo(sandbox, token)).status).toBe(401);
    sandbox.faults.remove(id);
    await tokenFor(sandbox);
    expect(sandbox.ledger.wasted).toBe(0);
  });

  it('shows which callers gave up, and does not count their tokens as delivered', async () => {
    sandbox.clock.freeze();
    sandbox.faults.add({ kind: 'latency', ms: 1000, when: { next: 1 } });
    const agent = new http.Agent();
    const given = askToken(sandbox, undefined, {}, agent).catch(() => 'gave up');
    await vi.waitUntil(() => sandbox.ledger.count({ outcome: 'pending' }) === 1, PATIENT);
    agent.destroy();
    expect(await given).toBe('gave up');
    await vi.waitUntil(() => sandbox.ledger.count({ outcome: 'aborted' }) === 1, PATIENT);
    await tokenFor(sandbox);
    expect(sandbox.ledger.wasted).toBe(0);
  });

  it('does not count an answer as delivered that was cut off before its turn on the connection', async () => {
    sandbox.clock.freeze();
    sandbox.faults.add({ kind: 'latency', ms: 1000, when: { next: 1 } });
    const [first, second] = sandbox.accessKeys;
    const requests = [first, second].map((accessKey) => rawTokenRequest(sandbox, accessKey));
    const socket = net.connect(Number(new URL(sandbox.url).port), '127.0.0.1');
    socket.write(requests.join('').replace('connection: close\r\n', ''));
    await vi.waitUntil(() => sandbox.ledger.count({ outcome: 'pending' }) === 2, PATIENT);
    socket.destroy();
    await vi.waitUntil(() => sandbox.ledger.count({ outcome: 'pending' }) === 0, PATIENT);
    expect(sandbox.ledger.summary().byOutcome).toEqual({ aborted: 2 });
    await tokenFor(sandbox, second);
    expect(sandbox.ledger.wasted).toBe(0);
  });

  it('keeps the last requests in full and counts them all', async () => {
    await using small = await startSandbox({ ledgerSize: 2, owners: 1 });
    for (let n = 0; n < 5; n++) await tokenFor(small);
    expect(small.ledger.entries().map((entry) => entry.id)).toEqual([4, 5]);
    expect(small.ledger.count()).toBe(5);
    small.ledger.clear();
    expect([small.ledger.count(), small.ledger.entries().length]).toEqual([0, 0]);
  });
});

describe('the sandbox', () => {
  it('makes the same credentials from the same seed, and others without', async () => {
    const facts = async (seed?: number) => {
      await using started = await startSandbox({ owners: 2, ...(seed !== undefined && { seed }) });
      return [started.clientId, started.clientSecret, ...started.accessKeys];
    };
    expect(await facts(7)).toEqual(await facts(7));
    const differs = [await facts(7), await facts(8), await facts(), await facts()].flat();
    expect(new Set(differs).size).toBe(differs.length);
  });

  it.each(['opaque', 'jwt'] as const)(
    'never issues, after a restart with the same seed, a token (%s) that another owner still holds',
    async (tokenFormat) => {
      const options = { owners: 4, seed: 7, profile: { tokenFormat } };
      let started = await startSandbox(options);
      const port = Number(new URL(started.url).port);
      const { url: baseUrl, clientId, clientSecret, owners } = started;
      const source = new TokenEndpoint({ baseUrl, clientId, clientSecret, agent: new http.Agent() });
      await using registry = new OwnerTokenRegistry({ source });
      /** The owner that /echo names for the token that an application has, or gets once that is rejected. */
      const ownerNamed = async (accessKey: string): Promise<string> => {
        const token = await registry.getToken(accessKey);
        const { status, json } = await echo(started, token.value);
        if (status === 200) return json.owner;
        registry.reject(accessKey, token);
        return (await echo(started, (await registry.getToken(accessKey)).value)).json.owner;
      };
      for (const { accessKey, id } of owners) expect(await ownerNamed(accessKey)).toBe(id);
      await started.close();

      started = await startSandbox({ ...options, port });
      for (const { accessKey, id } of owners.toReversed()) expect(await ownerNamed(accessKey)).toBe(id);
      expect(started.ledger.count({ kind: 'token', outcome: 'issued' })).toBe(4);
      await started.close();
    },
  );

  it('gives a seeded sandbox another secret at each rotation, after a restart too', async () => {
    const rotated = async () => {
      await using started = await startSandbox({ owners: 1, seed: 7 });
      return started.rotateClientSecret();
    };
    expect(await rotated()).not.toBe(await rotated());
  });

  it('refuses unknown and bad options together, with the known names and no value', async () => {
    const options = { ownres: 3, port: -1, host: '', lifetimeSeconds: 0, seed: 0.5 } as object;
    await expect(startSandbox(options)).rejects.toThrow(
      /port[\s\S]*host[\s\S]*lifetime[\s\S]*seed[\s\S]*ownres: unknown option; expected one of .*owners/,
    );
  });

  it('does not start when its port is taken', async () => {
    const port = Number(new URL(sandbox.url).port);
    await expect(startSandbox({ port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });

  it('closes with connections open, idle and half a request sent', async () => {
    const agent = new http.Agent({ keepAlive: true });
    await askToken(sandbox, undefined, {}, agent);
    const half = net.connect(Number(new URL(sandbox.url).port), '127.0.0.1');
    await new Promise<void>((resolve) =>
      half.write('POST /auth/v1/token HTTP/1.1\r\nhost: x\r\ncontent-le', () => resolve()),
    );
    const cut = new Promise((resolve) => half.on('close', resolve).on('error', () => {}));
    await sandbox.close();
    await sandbox.close();
    await cut;
    agent.destroy();
    await expect(askToken(sandbox)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('leaves neither timer nor socket behind once it is closed, whatever was in flight', async () => {
    const sockets = () => process.getActiveResourcesInfo().filter((name) => name.startsWith('TCP')).length;
    const [set, cleared] = [vi.spyOn(globalThis, 'setTimeout'), vi.spyOn(globalThis, 'clearTimeout')];
    await sandbox.close();
    const busy = await startSandbox({ owners: 2 });
    busy.faults.add({ kind: 'latency', ms: 60_000 });
    busy.faults.add({ kind: 'refuse', when: { schedule: [[50_000, 60_000]] } });
    busy.runScenario('black-hole');
    const given = Promise.allSettled([askToken(busy), call(`${busy.portalUrl}/api/events`)]);
    await vi.waitUntil(() => busy.ledger.count() === 1, PATIENT);
    await busy.close();
    await given;
    await vi.waitUntil(() => sockets() === 0, PATIENT);
    const ended = cleared.mock.calls.map(([timer]) => timer);
    const long = set.mock.results.filter((_result, index) => (set.mock.calls[index]?.[1] ?? 0) >= 10_000);
    expect(long.length).toBeGreaterThan(0);
    expect(long.filter(({ value }) => !ended.includes(value))).toEqual([]);
  });

  it('waits for its port when another has taken it while a fault kept it closed', async () => {
    const port = Number(new URL(sandbox.url).port);
    const id = sandbox.faults.add({ kind: 'refuse' });
    const squatter = net.createServer().listen(port, '127.0.0.1');
    await once(squatter, 'listening');
    sandbox.faults.remove(id);
    await settle();
    expect((await call(`${sandbox.portalUrl}/readyz`)).status).toBe(503);
    squatter.close();
    await vi.waitUntil(async () => (await call(`${sandbox.portalUrl}/readyz`)).status === 200, PATIENT);
    expect((await askToken(sandbox)).status).toBe(200);
  });

  it('dates its answers by its own clock', async () => {
    sandbox.clock.freeze();
    sandbox.clock.advance(86_400_000);
    const reply = await askToken(sandbox);
    expect(Date.parse(reply.headers.date ?? '')).toBe(Math.floor(sandbox.clock.now() / 1000) * 1000);
  });
});
