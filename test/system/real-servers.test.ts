/**
 * Servers that others wrote: oidc-provider, oauth2-mock-server, and glewlwyd if it is installed (`apt-get install glewlwyd`; with
 * REQUIRE_GLEWLWYD=1 its absence is a failure). None knows the access key of an owner, so it is sent as the scope.
 */

import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { OAuth2Server } from 'oauth2-mock-server';
import Provider from 'oidc-provider';
import { afterAll, describe, expect, it } from 'vitest';
import {
  basicAuthRequest,
  formRequest,
  OwnerTokenRegistry,
  TokenEndpoint,
  type TokenRequestShape,
} from '../../src/index.ts';
import { ManualClock } from '../helpers/manual-clock.ts';
import { errorOf } from '../helpers/registries.ts';
import { runCommand } from '../helpers/terminal.ts';

const SECRET = 'the-secret-7c51';

/** A server, and where it takes requests. */
interface Running extends AsyncDisposable {
  readonly url: string;
  readonly path: string;
  /** Endpoints of RFC 7662 and RFC 7009, if it has them. */
  readonly introspection?: string;
  readonly revocation?: string;
}

async function listen(listener: RequestListener): Promise<Running & { readonly port: number }> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${port}`, path: '', port, [Symbol.asyncDispose]: close };
}

async function startOidcProvider(): Promise<Running> {
  let handle: RequestListener = () => {};
  const running = await listen((request, response) => handle(request, response));
  const resource = 'https://api.example.com';
  const client = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [], client_secret: SECRET };
  const provider = new Provider(running.url, {
    clients: [
      { ...client, client_id: 'posting', token_endpoint_auth_method: 'client_secret_post' },
      { ...client, client_id: 'basic', token_endpoint_auth_method: 'client_secret_basic' },
    ],
    scopes: ['api'],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      introspection: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({
          scope: 'api',
          audience: resource,
          accessTokenFormat: 'jwt',
          accessTokenTTL: 300,
        }),
      },
    },
  });
  const callback = provider.callback();
  handle = (request, response) => void callback(request, response);
  const endpoints = { path: '/token', introspection: '/token/introspection', revocation: '/token/revocation' };
  return { ...running, ...endpoints };
}

async function startMockServer(): Promise<Running> {
  const server = new OAuth2Server();
  await server.issuer.keys.generate('RS256');
  await server.start(0, '127.0.0.1');
  const { port } = server.address();
  return { url: `http://127.0.0.1:${port}`, path: '/token', [Symbol.asyncDispose]: () => server.stop() };
}

const hasGlewlwyd = spawnSync('glewlwyd', ['--version']).error === undefined;
const GLEWLWYD_SQL = '/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3';

async function startGlewlwyd(): Promise<Running> {
  const folder = mkdtempSync(join(tmpdir(), 'glewlwyd-'));
  const spare = await listen(() => {});
  await spare[Symbol.asyncDispose]();
  const { port, url } = spare;
  const modules = Object.entries({ user: 'user', client: 'client', user_auth_scheme: 'scheme', plugin: 'plugin' });
  const settings = {
    bind_address: '127.0.0.1',
    external_url: `${url}/`,
    login_url: 'login.html',
    api_prefix: 'api',
    log_mode: 'console',
    log_level: 'INFO',
    session_key: 'GLEWLWYD2_SESSION_ID',
    hash_algorithm: 'SHA512',
    admin_scope: 'g_admin',
    profile_scope: 'g_profile',
    ...Object.fromEntries(modules.map(([name, at]) => [`${name}_module_path`, `/usr/lib/glewlwyd/${at}`])),
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name}="${value}"`);
  const database = `database = { type = "sqlite3"; path = "${folder}/db"; };`;
  writeFileSync(join(folder, 'conf'), [`port=${port}`, 'cookie_secure=0', ...lines, database, ''].join('\n'));
  execFileSync('sqlite3', [join(folder, 'db')], { input: `BEGIN;${readFileSync(GLEWLWYD_SQL, 'utf8')};COMMIT;` });
  const server = spawn('glewlwyd', [`--config-file=${join(folder, 'conf')}`], { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const text of server.stdout) if (String(text).includes('Glewlwyd started')) break;
  const close = async () => {
    server.kill();
    if (server.exitCode === null && server.signalCode === null) await once(server, 'exit');
    rmSync(folder, { recursive: true });
  };
  // It reports that it has started a moment before it listens.
  const answers = () => fetch(url).then(Boolean, () => false);
  while (server.exitCode === null && !(await answers())) await wait(10);
  await setUpGlewlwyd(`${url}/api`);
  const at = '/api/glwd';
  const endpoints = { path: `${at}/token`, introspection: `${at}/introspect`, revocation: `${at}/revoke` };
  return { url, ...endpoints, [Symbol.asyncDispose]: close };
}

/** Adds its OAuth 2 plugin, a scope and a client, as its administration page would. */
async function setUpGlewlwyd(api: string): Promise<void> {
  let cookie = '';
  const post = async (path: string, body: object) => {
    const headers = { 'content-type': 'application/json', cookie };
    const response = await fetch(`${api}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    cookie ||= (response.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
  };
  await post('/auth/', { username: 'admin', password: 'password' });
  await post('/scope/', { name: 'api', password_required: false });
  const names = ['code', 'implicit', 'password', 'refresh'].map((name) => [`auth-type-${name}-enabled`, false]);
  const parameters = {
    url: 'glwd',
    'jwt-type': 'sha',
    'jwt-key-size': '256',
    key: 'k'.repeat(32),
    scope: [],
    'access-token-duration': 600,
    'refresh-token-duration': 600,
    'code-duration': 600,
    'auth-type-client-enabled': true,
    'refresh-token-rolling': false,
    'introspection-revocation-allowed': true,
    'introspection-revocation-allow-target-client': true,
    ...Object.fromEntries(names),
  };
  await post('/mod/plugin/', { module: 'oauth2-glewlwyd', name: 'glwd', display_name: '', parameters, enabled: true });
  const client = { client_id: 'basic', confidential: true, password: SECRET, client_secret: SECRET, enabled: true };
  await post('/client/', { ...client, scope: ['api'], authorization_type: ['client_credentials'], redirect_uri: [] });
}

let glewlwyd: Promise<Running> | undefined;
afterAll(async () => (await glewlwyd)?.[Symbol.asyncDispose]());

/** One for all tests, because it takes a second to start. */
async function sharedGlewlwyd(): Promise<Running> {
  glewlwyd ??= startGlewlwyd();
  return { ...(await glewlwyd), [Symbol.asyncDispose]: async () => {} };
}

type Shaped = [
  name: string,
  start: () => Promise<Running>,
  clientId: string,
  shape: (path: string) => TokenRequestShape,
];

const parameters = { accessKey: 'scope' };
const form = (path: string) => formRequest({ path, parameters });
const basic = (path: string) => basicAuthRequest({ path, parameters });
const OIDC: Shaped[] = [
  ['oidc-provider with a form', startOidcProvider, 'posting', form],
  ['oidc-provider with HTTP Basic', startOidcProvider, 'basic', basic],
];
const GLEWLWYD: Shaped[] = hasGlewlwyd ? [['glewlwyd with HTTP Basic', sharedGlewlwyd, 'basic', basic]] : [];

function registryOn(
  { url, path }: Running,
  clientId: string,
  shape: Shaped[3],
  clientSecret: () => string = () => SECRET,
) {
  const clock = new ManualClock(Date.now());
  const tokenRequest = shape(path);
  const source = new TokenEndpoint({ baseUrl: url, clientId, clientSecret, tokenRequest, clock });
  return { clock, registry: new OwnerTokenRegistry({ source, clock }) };
}

it.runIf(process.env.REQUIRE_GLEWLWYD)('glewlwyd is installed', () => expect(hasGlewlwyd).toBe(true));

describe.each([...OIDC, ...GLEWLWYD])('%s', (_, start, clientId, shape) => {
  it('issues a token that is cached until it expires, and refuses a wrong secret until it is right', async () => {
    await using server = await start();
    let secret = 'wrong';
    const { registry, clock } = registryOn(server, clientId, shape, () => secret);
    const refused = await errorOf(registry.getToken('api'));
    expect(refused.status).toBeGreaterThanOrEqual(400);
    expect(['client_refused', 'owner_refused']).toContain(refused.code);
    secret = SECRET;
    registry.resume();
    const token = await registry.getToken('api');
    expect(token.tokenType).toBe('Bearer');
    expect(token.expiresAtMs - token.issuedAtMs).toBe(590_000);
    expect(await registry.getToken('api')).toBe(token);
    clock.advance(590_000);
    expect((await registry.getToken('api')).value).not.toBe(token.value);
    await registry.close();
  });

  it('revokes a token at the cost of one 401 for the API and none for the caller', async () => {
    await using server = await start();
    const { registry } = registryOn(server, clientId, shape);
    const asClient = (at: string | undefined, token: string) => {
      const credentials = { client_id: clientId, client_secret: SECRET };
      const body = new URLSearchParams(clientId === 'basic' ? { token } : { token, ...credentials });
      const authorization = `Basic ${Buffer.from(`${clientId}:${SECRET}`).toString('base64')}`;
      return fetch(`${server.url}${at}`, {
        method: 'POST',
        body,
        headers: clientId === 'basic' ? { authorization } : {},
      });
    };
    const seen: number[] = [];
    const introspect: (...args: Parameters<RequestListener>) => Promise<void> = async ({ headers }, response) => {
      const answer = await asClient(server.introspection, headers.authorization?.split(' ')[1] ?? '');
      const { active } = (await answer.json()) as { active: boolean };
      seen.push(active ? 200 : 401);
      response.writeHead(active ? 200 : 401).end();
    };
    await using api = await listen((...exchange) => void introspect(...exchange));
    const call = registry.ownerFetch('api', { allowedOrigins: [api.url] });
    expect((await call(api.url)).status).toBe(200);
    expect((await asClient(server.revocation, (await registry.getToken('api')).value)).ok).toBe(true);
    expect((await call(api.url)).status).toBe(200);
    expect(seen).toEqual([200, 401, 200]);
    await registry.close();
  });
});

it('oidc-provider: a JWT for the resource that a further parameter names, whose own lifetime counts', async () => {
  await using server = await startOidcProvider();
  const withResource = (path: string) =>
    formRequest({ path, parameters, extra: { resource: 'https://api.example.com' } });
  const { registry } = registryOn(server, 'posting', withResource);
  const token = await registry.getToken('api');
  expect(token.value.split('.')).toHaveLength(3);
  expect(token.expiresAtMs - token.issuedAtMs).toBe(290_000);
  await registry.close();
});

it('oauth2-mock-server: a JWT by a form', async () => {
  await using server = await startMockServer();
  const { registry } = registryOn(server, 'any', form);
  expect((await registry.getToken('api')).expiresAtMs).toBeGreaterThan(0);
  await registry.close();
});

describe('the doctor', () => {
  const servers: [name: string, start: () => Promise<Running>, clientId: string, shape: string][] = [
    ['oidc-provider', startOidcProvider, 'posting', 'formRequest'],
    ['oauth2-mock-server', startMockServer, 'any', 'jsonRequest'],
  ];
  if (hasGlewlwyd) servers.push(['glewlwyd', sharedGlewlwyd, 'basic', 'basicAuthRequest']);

  it.each(servers)('finds the request of %s from its token URL', async (_, start, clientId, shape) => {
    await using server = await start();
    const env = { OTR_BASE_URL: server.url + server.path, OTR_CLIENT_ID: clientId, OTR_CLIENT_SECRET: SECRET };
    const args = ['doctor', '--json', '--parameter', 'accessKey=scope'];
    const { code, out } = await runCommand(args, { ...env, OTR_ACCESS_KEY: 'api' });
    const { options } = JSON.parse(out);
    expect(code).toBe(0);
    const tokenRequest = `${shape}({ path: '${server.path}', parameters: { accessKey: 'scope' } })`;
    expect(options).toEqual([`baseUrl: '${server.url}'`, `tokenRequest: ${tokenRequest}`]);
  });
});
