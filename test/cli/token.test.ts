import type { RequestListener } from 'node:http';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/index.ts';
import { jwt } from '../helpers/jwt.ts';
import { runCommand } from '../helpers/terminal.ts';
import { withServer } from '../helpers/with-server.ts';

let sandbox: Sandbox;
let env: Record<string, string>;

beforeEach(async () => {
  sandbox = await startSandbox({ owners: 1, lifetimeSeconds: 1800 });
  env = {
    OTR_BASE_URL: sandbox.url,
    OTR_CLIENT_ID: sandbox.clientId,
    OTR_CLIENT_SECRET: sandbox.clientSecret,
    OTR_ACCESS_KEY: sandbox.accessKeys[0] ?? '',
  };
});
afterEach(() => sandbox.close());

/** Neither stream may hold a secret. */
function expectNoSecrets(printed: { out: string; err: string }): void {
  for (const name of ['OTR_CLIENT_SECRET', 'OTR_ACCESS_KEY'])
    expect(printed.out + printed.err).not.toContain(env[name]);
}

describe('a token', () => {
  it('is described but not printed', async () => {
    const ended = await runCommand(['token'], env);
    expect(ended).toMatchObject({ code: 0, err: '' });
    expect(ended.out).toMatch(/^owner {9}owner_[\w-]{16} /m);
    expect(ended.out).toMatch(/^token {9}token_[\w-]{16} /m);
    expect(ended.out).toMatch(/^token type {4}Bearer$/m);
    expect(ended.out).toMatch(/^lifetime {6}1800 s, as stated by the service$/m);
    expect(ended.out).toMatch(/^served until {2}\d{4}-.*Z, 1790 s after the request$/m);
    expect(ended.out).not.toContain('sbx_');
    expectNoSecrets(ended);
  });

  it('is one JSON object with --json', async () => {
    const before = Date.now();
    const ended = await runCommand(['token', '--json'], env);
    const found = JSON.parse(ended.out);
    expect(Object.keys(found).sort()).toEqual(
      ['expiresAtMs', 'fingerprint', 'issuedAtMs', 'lifetimeMs', 'owner', 'tokenType', 'warnings'].sort(),
    );
    expect(found).toMatchObject({ tokenType: 'Bearer', lifetimeMs: 1_800_000 });
    expect(found.expiresAtMs - found.issuedAtMs).toBe(1_790_000);
    expect(found.issuedAtMs).toBeGreaterThanOrEqual(before);
    expectNoSecrets(ended);
  });

  it('is printed with --show-token, and is valid', async () => {
    const { out } = await runCommand(['token', '--json', '--show-token'], env);
    const { token } = JSON.parse(out);
    const answer = await fetch(`${sandbox.url}/echo`, { headers: { authorization: `Bearer ${token}` } });
    expect(answer.status).toBe(200);
    expect((await runCommand(['token', '--show-token'], env)).out).toMatch(/^token {9}sbx_/m);
  });
});

const NOW = Math.floor(Date.now() / 1000);

/** Runs `use` against a service with this handler. */
const withService = (answer: RequestListener, use: (url: string) => Promise<void>): Promise<void> =>
  withServer(answer, (port) => use(`http://127.0.0.1:${port}`));

it.each([
  [{ access_token: 't', token_type: 'DPoP', expires_in: 60 }, /token type dpop, which the library does not support/],
  [
    { access_token: jwt({ iat: NOW, exp: NOW + 60 }), expires_in: 7200 },
    /60 s, which contradicts the response; use the shorter/,
  ],
])('a token response of %j is a warning', async (body, expected) => {
  await withService(
    (_, response) => response.end(JSON.stringify(body)),
    async (url) => {
      const text = await runCommand(['token'], { ...env, OTR_BASE_URL: url });
      expect(text.code).toBe(0);
      expect(text.err).toMatch(expected);
      const json = await runCommand(['token', '--json'], { ...env, OTR_BASE_URL: url });
      expect(json.err).toBe('');
      expect(JSON.parse(json.out).warnings).toEqual([expect.stringMatching(expected)]);
    },
  );
});

it('a token lifetime that the service does not state is reported as such', async () => {
  await withService(
    (_, response) => response.end(JSON.stringify({ access_token: 'opaque' })),
    async (url) => {
      const { code, out } = await runCommand(['token'], { ...env, OTR_BASE_URL: url });
      expect(code).toBe(0);
      expect(out).toMatch(/^lifetime {6}not stated by the service; a registry assumes 300 s unless/m);
      const json = await runCommand(['token', '--json'], { ...env, OTR_BASE_URL: url });
      expect(JSON.parse(json.out).lifetimeMs).toBeNull();
    },
  );
});

// Well before the endpoint's own deadline of ten seconds.
it('Ctrl-C ends the wait for a silent service, with exit code 130', { timeout: 5_000 }, async () => {
  const interrupt = new AbortController();
  await withService(
    () => interrupt.abort(),
    async (url) => {
      const ended = await runCommand(['token'], { ...env, OTR_BASE_URL: url }, interrupt.signal);
      expect(ended).toEqual({ code: 130, out: '', err: '' });
    },
  );
});
