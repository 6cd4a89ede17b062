import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { RequestListener, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { Report } from '../../../src/cli/doctor/report.ts';
import { type Profile, type Sandbox, type SandboxOptions, startSandbox } from '../../../src/sandbox/index.ts';
import { jwt } from '../../helpers/jwt.ts';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from '../../helpers/loopback-certificate.ts';
import { type Ended, runCommand } from '../../helpers/terminal.ts';
import { withServer } from '../../helpers/with-server.ts';
import { askToken, echo } from '../../sandbox/client.ts';

const folder = mkdtempSync(join(tmpdir(), 'doctor-command-'));
afterAll(() => rmSync(folder, { recursive: true }));

const CANARIES = { OTR_CLIENT_ID: 'canary-id', OTR_CLIENT_SECRET: 'canary-secret', OTR_ACCESS_KEY: 'canary_key' };

const envOf = ({ url, clientId, clientSecret, accessKeys }: Sandbox) => ({
  OTR_BASE_URL: url,
  OTR_CLIENT_ID: clientId,
  OTR_CLIENT_SECRET: clientSecret,
  OTR_ACCESS_KEY: accessKeys[0] ?? '',
});

interface Examined extends Ended {
  readonly report: Report;
  /** A result by its check. */
  of(check: string): Report['checks'][number] | undefined;
}

/** Runs the doctor with --json and checks that no secret is printed. */
async function examine(env: Record<string, string>, args: string[] = []): Promise<Examined> {
  const ended = await runCommand(['doctor', '--json', ...args], env);
  expectNoSecrets(ended, env);
  const report = JSON.parse(ended.out) as Report;
  return { ...ended, report, of: (name) => report.checks.find(({ check }) => check === name) };
}

function expectNoSecrets({ out, err }: Ended, env: Record<string, string>): void {
  for (const name of ['OTR_CLIENT_SECRET', 'OTR_ACCESS_KEY', 'OTR_CLIENT_ID']) {
    expect(out + err).not.toContain(env[name]);
  }
  expect(out + err).not.toMatch(/sbx_|canary|eyJ/);
}

async function examineSandbox(options: SandboxOptions, args: (sandbox: Sandbox) => string[] = () => []) {
  await using sandbox = await startSandbox({ owners: 1, ...options });
  const examined = await examine(envOf(sandbox), args(sandbox));
  return { ...examined, ledger: sandbox.ledger.entries() };
}

/** Examines a service with this handler. */
const examineService = (
  answer: RequestListener | Server,
  args: (url: string) => string[] = () => [],
  env: Record<string, string> = CANARIES,
  scheme = 'http',
): Promise<Examined> =>
  withServer(answer, (port) => {
    const url = `${scheme}://127.0.0.1:${port}`;
    return examine({ ...env, OTR_BASE_URL: url }, args(url));
  });

const says =
  (body: unknown): RequestListener =>
  (_, response) =>
    response.end(JSON.stringify(body));

describe('a service that meets all assumptions', () => {
  it('gets no warning and no recommended option', async () => {
    const { code, report, err } = await examineSandbox({});
    expect({ code, err, ok: report.ok, options: report.options }).toEqual({ code: 0, err: '', ok: true, options: [] });
    expect(report.checks.map(({ check, status }) => `${check} ${status}`)).toEqual([
      ...['name', 'tls', 'token', 'clock', 'shape', 'lifetime', 'format'].map((check) => `${check} ok`),
      'owner skipped',
    ]);
    expect(report.differences).toEqual([]);
  });

  it('is reported as text', async () => {
    await using sandbox = await startSandbox({ owners: 1 });
    const ended = await runCommand(['doctor'], envOf(sandbox));
    expectNoSecrets(ended, envOf(sandbox));
    expect(ended.code).toBe(0);
    expect(ended.out).toMatch(/^ok {7}name {8}IP address, no DNS lookup \(loopback\)$/m);
    expect(ended.out).toMatch(/^ok {7}tls {9}not used: plain http to loopback$/m);
    expect(ended.out).toMatch(/^ok {7}lifetime {4}3600 s, in expires_in as a number of seconds/m);
    expect(ended.out).toContain('none: the defaults fit');
    expect(ended.out).toMatch(/All checks passed\.\n$/);
  });

  it('receives one token request, and a second only if allowed', async () => {
    const probed = await examineSandbox({}, ({ url }) => ['--probe-url', `${url}/echo`]);
    expect(probed.ledger.map(({ kind, outcome }) => `${kind} ${outcome}`)).toEqual([
      'token issued',
      'echo rejected',
      'echo accepted',
    ]);
    expect(probed.of('probe')).toMatchObject({ status: 'ok', facts: { status: 200, statusWithout: 401 } });
    expect(probed.of('revocation')).toBeUndefined();
  });
});

describe('a name', () => {
  it('is resolved and classified', async () => {
    await using sandbox = await startSandbox({ owners: 1 });
    const url = sandbox.url.replace('127.0.0.1', 'localhost');
    const { of } = await examine({ ...envOf(sandbox), OTR_BASE_URL: url });
    expect(of('name')).toMatchObject({ status: 'ok', facts: { kinds: ['loopback'] } });
  });

  it('that does not resolve fails, and the later checks are skipped with the reason', async () => {
    const { code, report, of } = await examine({ ...CANARIES, OTR_BASE_URL: 'https://nobody.invalid' });
    expect(code).toBe(1);
    expect(of('name')).toMatchObject({ status: 'failed', text: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/) });
    expect(of('tls')).toMatchObject({ status: 'skipped', text: 'requires the name check to pass' });
    const skipped = ['tls', 'token', 'clock', 'shape', 'lifetime', 'format'].map((check) => `${check} skipped`);
    expect(report.checks.map(({ check, status }) => `${check} ${status}`)).toEqual(['name failed', ...skipped]);
  });
});

describe('TLS', () => {
  it('with an untrusted certificate fails, and nothing is sent', async () => {
    let requests = 0;
    const server = createServer({ key: LOOPBACK_KEY, cert: LOOPBACK_CERTIFICATE }, () => requests++);
    const { code, of } = await examineService(server, undefined, CANARIES, 'https');
    expect(code).toBe(1);
    expect(of('tls')).toMatchObject({
      status: 'failed',
      text: 'invalid certificate: DEPTH_ZERO_SELF_SIGNED_CERT',
      facts: { protocol: 'TLSv1.3', problem: 'DEPTH_ZERO_SELF_SIGNED_CERT', daysLeft: expect.any(Number) },
      advice: expect.stringContaining('NODE_EXTRA_CA_CERTS'),
    });
    expect(of('token')?.status).toBe('skipped');
    expect(requests).toBe(0);
  });
});

describe('the clock of the service', () => {
  it.each([
    [600_000, 'ahead'],
    [-600_000, 'behind'],
  ])('is a warning when it is %d ms off', async (offMs, word) => {
    const { code, of } = await examineService((_, response) => {
      response.setHeader('date', new Date(Date.now() + offMs).toUTCString()).end('{"access_token":"t"}');
    });
    expect(code).toBe(0);
    expect(of('clock')).toMatchObject({ status: 'warning', text: expect.stringContaining(word) });
    const { leastMs, mostMs } = (of('clock')?.facts ?? {}) as { leastMs?: number; mostMs?: number };
    expect(leastMs).toBeLessThanOrEqual(offMs);
    expect(mostMs).toBeGreaterThan(offMs);
  });

  it('is reported even when the token is refused', async () => {
    const { of } = await examineSandbox({ faults: [{ kind: 'status', status: 500 }] });
    expect(of('token')).toMatchObject({ status: 'failed', facts: { code: 'endpoint_unavailable', status: 500 } });
    expect(of('clock')?.status).toBe('ok');
  });
});

describe('a failure', () => {
  it('for the rate of requests is no refusal that needs an error code', async () => {
    const answer: RequestListener = (_, response) => response.writeHead(429).end();
    const { out } = await withServer(answer, (port) =>
      runCommand(['doctor'], { ...CANARIES, OTR_BASE_URL: `http://127.0.0.1:${port}` }),
    );
    expect(out).toContain('Too many requests.');
    expect(out).not.toContain('classifyFailure');
  });

  it('without an RFC 6749 code recommends classifyFailure', async () => {
    for (const errorForm of ['text', 'html'] as const) {
      await using sandbox = await startSandbox({ owners: 1, profile: { errorForm } });
      const { of } = await examine({ ...envOf(sandbox), OTR_ACCESS_KEY: 'canary-wrong' });
      // A page may come from a gateway.
      expect(of('token')?.advice?.includes('classifyFailure')).toBe(errorForm === 'text');
    }
  });

  it('of a silent service is reported at the deadline', async () => {
    const { code, of } = await examineSandbox({ faults: [{ kind: 'silence' }] }, () => ['--timeout', '0.1']);
    expect(code).toBe(1);
    expect(of('token')).toMatchObject({ status: 'failed', facts: { code: 'endpoint_unavailable' } });
  });

  it.each([
    [{ token: CANARIES.OTR_ACCESS_KEY }],
    [{ request: CANARIES }],
    [{ access_token: CANARIES.OTR_CLIENT_SECRET, error: CANARIES.OTR_ACCESS_KEY }],
    [{ access_token: 'good', token_type: CANARIES.OTR_ACCESS_KEY, expires_in: CANARIES.OTR_CLIENT_SECRET }],
    [{ [CANARIES.OTR_ACCESS_KEY]: { access_token: 'good' }, data: [CANARIES.OTR_CLIENT_SECRET] }],
    [['good', CANARIES.OTR_ACCESS_KEY]],
  ])('that echoes the request is not printed, nor is such an answer: %j', async (body) => {
    const { code } = await examineService(says(body));
    expect(code).toBe('access_token' in body && body.access_token === 'good' ? 0 : 1);
  });
});

it('a lifetime that echoes a numeric access key is not printed', async () => {
  const env = { ...CANARIES, OTR_ACCESS_KEY: '8675309' };
  const { code, of } = await examineService(says({ access_token: 't', expires_in: 8675309 }), undefined, env);
  expect(code).toBe(0);
  expect(of('lifetime')).toMatchObject({ status: 'warning', facts: { field: null } });
});

describe('malformed answers', () => {
  it('are each examined to the end', async () => {
    await using sandbox = await startSandbox({ owners: 1, profile: { shape: 'hostile' } });
    const codes = new Set<number>();
    for (let n = 0; n < 25; n++) codes.add((await examine(envOf(sandbox))).code);
    expect([...codes].sort()).toEqual([0, 1]);
  });
});

describe('the recommended options', () => {
  it.each<[string, unknown, string[]]>([
    ['no lifetime', { access_token: 't', token_type: 'bearer' }, ['expiry: learnedLifetime()']],
    ['nonsense', { access_token: 't', expires_in: 'soon' }, ['expiry: learnedLifetime()']],
    ['milliseconds', { access_token: 't', expires_in: 3_600_000 }, ["field: 'expires_in', unit: 'ms'"]],
    ['a month in seconds', { access_token: 't', expires_in: 2_592_000 }, []],
    ['50 days in seconds, which are whole minutes of ms', { access_token: 't', expires_in: 4_320_000 }, []],
    ['minutes, by the JWT', { access_token: jwt({ iat: 0, exp: 3600 }), expires_in: 60 }, ["unit: 'min'"]],
    ['a JWT alone', { access_token: jwt({ iat: 0, exp: 3600 }) }, []],
    [
      'a wrapped answer',
      { data: { accessToken: 't', tokenType: 'Bearer', expiresIn: '900' } },
      [
        'parseResponse: (body) => ({ token: body.data.accessToken, tokenType: body.data.tokenType })',
        "expiry: firstKnown(expiresIn({ field: 'data.expiresIn', unit: 's' }), jwtExp())",
      ],
    ],
    [
      'an odd name',
      { 'Access-Token': 't', ttl: 900 },
      ["token: body['Access-Token']", "expiresIn({ field: 'ttl', unit: 's' })"],
    ],
    ['an instant', { access_token: 't', expires_at: '2027-01-01T00:00:00Z' }, ['expires_at is a date']],
  ])('fit the answer: %s', async (_, body, expected) => {
    const { code, report } = await examineService(says(body));
    expect(code).toBe(0);
    expect(report.options).toHaveLength(expected.length);
    for (const [index, part] of expected.entries()) expect(report.options[index]).toContain(part);
  });

  it.each([
    ['the JWT', 60, 7200, ['expiry: jwtExp()'], 60],
    ['the answer', 7200, 60, [], 60],
  ])(
    'take the shorter lifetime of two that disagree, as the profile does: that of %s',
    async (_, exp, expires_in, options, seconds) => {
      const { of, report } = await examineService(says({ access_token: jwt({ iat: 0, exp }), expires_in }));
      expect(of('format')).toMatchObject({ status: 'warning', facts: { agrees: false, hasExp: true, hasIat: true } });
      expect(report.options).toEqual(options);
      expect(report.sandbox).toMatchObject({ lifetimeSeconds: seconds });
    },
  );

  it.each(['mac', 'DPoP', 'N_A', 'special'])('come with a warning about a token of type %s', async (type) => {
    const { of, code } = await examineService(says({ access_token: 't', token_type: type, expires_in: 60 }));
    expect(code).toBe(0);
    expect(of('shape')).toMatchObject({ status: 'warning', text: expect.stringMatching(/does not support|as Bearer/) });
  });
});

describe('the doctor', () => {
  type Refused = [status: number, body: object];
  const issued = '{"access_token":"t","token_type":"Bearer","expires_in":60}';

  /** A service with this path that takes one encoding, refuses each other one in its way, and counts its requests. */
  async function examineEncoded(
    refused: Partial<Record<'json' | 'form' | 'basic', Refused>>,
    { path = '/auth/v1/token', base = '', args = [] as string[], env = {} } = {},
  ) {
    const requests: string[] = [];
    const service: RequestListener = (request, response) => {
      const isForm = request.headers['content-type'] === 'application/x-www-form-urlencoded';
      const encoding = request.headers.authorization ? 'basic' : isForm ? 'form' : 'json';
      if (request.method === 'POST') requests.push(request.url === path ? encoding : `${encoding} ${request.url}`);
      const [status, body] = request.url === path ? (refused[encoding] ?? [200]) : [404, {}];
      response.writeHead(status).end(body ? JSON.stringify(body) : issued);
    };
    return withServer(service, async (port) => {
      const url = `http://127.0.0.1:${port}`;
      const examined = await examine({ ...CANARIES, ...env, OTR_BASE_URL: url + base }, args);
      return { ...examined, requests, url };
    });
  }

  const MISREAD: Refused[] = [
    [400, { error: 'invalid_request', error_description: 'Missing form parameter: grant_type' }],
    [400, { error: 'unsupported_grant_type' }],
    [401, { error: 'invalid_client' }],
    [403, {}],
    [415, {}],
    [500, {}],
  ];

  it.each(MISREAD)('tries a form if JSON is refused with %d and %j, and recommends it', async (...json) => {
    const { code, report, of, requests } = await examineEncoded({ json });
    expect({ code, requests }).toEqual({ code: 0, requests: ['json', 'form'] });
    expect(of('token')).toMatchObject({
      status: 'warning',
      text: expect.stringMatching(`obtained with a form; with JSON .*${json[0]}`),
      facts: { encoding: 'form' },
    });
    expect(of('clock')?.status).toBe('ok');
    expect(report.options).toEqual(['tokenRequest: formRequest()']);
    expect(report).toMatchObject({ sandbox: { profile: { acceptForms: true } }, differences: [] });
  });

  it.each(MISREAD)('tries HTTP Basic if JSON and a form are refused with %d and %j', async (...refused) => {
    const { code, report, of, requests } = await examineEncoded({ json: refused, form: refused });
    expect({ code, requests }).toEqual({ code: 0, requests: ['json', 'form', 'basic'] });
    expect(of('token')?.text).toMatch(/^obtained with HTTP Basic; with JSON /);
    expect(report.options).toEqual(['tokenRequest: basicAuthRequest()']);
  });

  it('reports the refusal by a service that understood the request, and the outcomes of the other encodings', async () => {
    const unread: Refused = [400, { error: 'invalid_request' }];
    const { code, of } = await examineEncoded({
      json: unread,
      form: [401, { error: 'invalid_client' }],
      basic: unread,
    });
    expect(code).toBe(1);
    expect(of('token')).toMatchObject({ status: 'failed', facts: { status: 401, oauthError: 'invalid_client' } });
    expect(of('token')?.advice).toContain('Tried as well: JSON (invalid_request), HTTP Basic (invalid_request).');
    const known = await examineEncoded({ json: unread, form: [401, {}], basic: [400, { error: 'invalid_scope' }] });
    expect(known.of('token')?.facts).toMatchObject({ oauthError: 'invalid_scope' });
  });

  it.each<Refused>([
    [400, { error: 'invalid_grant' }],
    [400, { error: 'unauthorized_client' }],
    [429, {}],
    [503, {}],
  ])('tries no other encoding if the answer is %d and %j', async (...json) => {
    expect(await examineEncoded({ json })).toMatchObject({ code: 1, requests: ['json'] });
  });

  it('tries only the encoding that is given', async () => {
    const refused: Refused = [401, { error: 'invalid_client' }];
    const given = await examineEncoded({ form: refused }, { args: ['--form'] });
    expect(given).toMatchObject({ code: 1, requests: ['form'] });
    const named = await examineEncoded({ json: refused }, { env: { OTR_TOKEN_ENCODING: 'json' } });
    expect(named).toMatchObject({ code: 1, requests: ['json'] });
    const basic = await examineEncoded({}, { args: ['--basic'] });
    expect(basic.of('token')).toMatchObject({
      status: 'ok',
      text: expect.stringMatching(/^obtained in \d+ ms, with HTTP Basic$/),
    });
    expect(basic.report.options).toEqual(['tokenRequest: basicAuthRequest()']);
  });

  it('splits a complete token URL, whether or not it looks like one', async () => {
    for (const path of ['/oauth2/v2.0/token', '/login/', '/api/authenticate']) {
      const { code, report, requests, url, err, of } = await examineEncoded({ json: [415, {}] }, { path, base: path });
      expect(code).toBe(0);
      expect(requests.at(-1)).toBe('form');
      expect(report.options).toEqual([`baseUrl: '${url}'`, `tokenRequest: formRequest({ path: '${path}' })`]);
      expect(report.differences).toEqual(['the path of the token endpoint']);
      if (path.endsWith('token')) expect(err).toContain('OTR_BASE_URL is a complete token URL');
      else expect(of('token')?.text).toContain('responded with 404');
    }
    const json = await examineEncoded({}, { path: '/login', base: '/login' });
    expect(json.of('token')?.text).toMatch(/^obtained with OTR_BASE_URL as the complete token URL; with JSON .*404/);
  });

  it('tolerates the documented path at the end of OTR_BASE_URL', async () => {
    for (const base of ['/auth/v1/token', '/auth/v1/token/']) {
      const { code, err, report, requests } = await examineEncoded({}, { base });
      expect({ code, requests, options: report.options }).toEqual({ code: 0, requests: ['json'], options: [] });
      expect(err).toContain('OTR_BASE_URL ends with /auth/v1/token, which is appended anyway');
    }
    const mounted = await examineEncoded({}, { path: '/x/auth/v1/token', base: '/x/auth/v1/token' });
    expect(mounted).toMatchObject({ code: 0, requests: ['json'] });
  });

  it('tries an address without a token endpoint as a token URL once, and not at all if a path is given', async () => {
    const { code, of, requests } = await examineEncoded({}, { path: '/right', base: '/wrong' });
    expect({ code, requests }).toEqual({ code: 1, requests: ['json /wrong/auth/v1/token', 'json /wrong'] });
    expect(of('token')?.advice).toContain('Tried as well: JSON at the other address (404).');
    const args = ['--token-path', '/x'];
    const given = await examineEncoded({}, { path: '/right', base: '/wrong', args });
    expect(given.requests).toEqual(['json /wrong/x']);
    expect(given.of('token')?.advice).toContain('Are OTR_BASE_URL and the path of the token endpoint right?');
  });

  it('takes the path, names and further parameters from flags or variables, and recommends them', async () => {
    const env = {
      OTR_TOKEN_PATH: '/p?v=1',
      OTR_TOKEN_PARAMETERS: 'accessKey=te-nant&clientId=id',
      OTR_TOKEN_EXTRA: 'audience=it%27s+"x"',
    };
    const byEnv = await examineEncoded({ json: [415, {}] }, { path: '/p?v=1', env });
    const [option] = byEnv.report.options;
    expect(option).toBe(
      `tokenRequest: formRequest({ path: '/p?v=1', parameters: { accessKey: 'te-nant', clientId: 'id' }, extra: { audience: 'it\\'s "x"' } })`,
    );
    expect(byEnv.report.differences).toEqual(['the path of the token endpoint', 'the names of the parameters']);
    const args = ['--token-path', '/q', '--parameter', 'accessKey=scope', '--extra', 'api-version=a=b', '--basic'];
    const byFlag = await examineEncoded({}, { path: '/q', args, env });
    expect(byFlag.report.options).toEqual([
      `tokenRequest: basicAuthRequest({ path: '/q', parameters: { accessKey: 'scope' }, extra: { 'api-version': 'a=b' } })`,
    ]);
  });

  it('examines a service without access keys, and recommends to leave the parameter out', async () => {
    const args = ['--no-access-key', '--parameter', 'clientId=id'];
    const { report, of } = await examineEncoded({}, { args });
    expect(report.options).toContain(`tokenRequest: jsonRequest({ parameters: { clientId: 'id', accessKey: false } })`);
    expect(report.differences).toEqual(['the names of the parameters', 'no access key']);
    expect(of('owner')?.text).toBe('not verified: the request has no access key, so it names no owner');
  });

  it('shows no secret in a recommended option', async () => {
    const path = `/${CANARIES.OTR_ACCESS_KEY}/token`;
    const { report } = await examineEncoded({}, { path, base: path });
    expect(report.options[1]).toBe(`tokenRequest: jsonRequest({ path: … })`);
  });

  it.each([
    [['--form', '--basic'], {}, '--form and --basic: expected one of them'],
    [[], { OTR_TOKEN_ENCODING: 'xml' }, 'OTR_TOKEN_ENCODING: expected json, form or basic'],
    [['--parameter', 'scope'], {}, '--parameter: expected NAME='],
    [['--parameter', 'key=scope'], {}, 'parameters.key: unknown option'],
    [['--no-access-key', '--parameter', 'accessKey=x'], {}, '--no-access-key and --parameter accessKey: expected one'],
    [['--extra', '=x'], {}, '--extra: expected NAME='],
    [['--extra', 'grant_type=x'], {}, 'extra: expected no name that the shape sends itself'],
    [['--token-path', '//canary'], {}, 'path: expected a percent-encoded path'],
  ])('refuses %j and %j as a usage error', async (args, env, expected) => {
    const { code, err } = await runCommand(['doctor', ...args], {
      ...CANARIES,
      ...env,
      OTR_BASE_URL: 'https://x.invalid',
    });
    expect(code).toBe(2);
    expect(err).toContain(expected);
    expect(err).not.toContain('canary');
  });
});

it('the words of the service are not shown', async () => {
  const { of, out } = await examineService((_, response: ServerResponse) => {
    response
      .writeHead(400)
      .end(JSON.stringify({ error: 'invalid_grant', error_description: 'The contract has ended.' }));
  });
  expect(of('token')?.advice).toMatch(/^The service accepts/);
  expect(out).not.toContain('contract');
});

describe('the owner of the token', () => {
  it('is not verified without a resource that names it', async () => {
    const { of } = await examineSandbox({});
    expect(of('owner')).toMatchObject({
      status: 'skipped',
      text: expect.stringMatching(/^not verified/),
      advice: expect.stringContaining('--expect-owner'),
    });
    const expected = ['--expect-owner', 'owner-001'];
    const silent = await withTwoFaces((url) => ['--probe-url', `${url}/x`, ...expected]);
    expect(silent.of('owner')).toMatchObject({ status: 'skipped', advice: expect.stringContaining('does not name') });
  });
});

describe('a probe', () => {
  it.each<[Partial<Profile>, object, string]>([
    [
      { revokePrevious: true },
      { status: 'warning', facts: { revokesPrevious: true, sameToken: false } },
      'SharedTokens',
    ],
    [{ revokePrevious: false }, { status: 'ok', facts: { revokesPrevious: false, sameToken: false } }, ''],
  ])('with a second token detects %j', async (profile, expected, option) => {
    const { code, report, of } = await examineSandbox({ profile }, ({ url }) => [
      '--probe-url',
      `${url}/echo`,
      '--allow-revocation',
    ]);
    expect(code).toBe(0);
    expect(of('revocation')).toMatchObject(expected);
    expect(report.options.join()).toContain(option);
    expect(report.options).toHaveLength(option ? 1 : 0);
  });

  it.each([
    ['owner-001', 'ok', 0],
    ['owner-002', 'failed', 1],
  ])('with --expect-owner %s detects a token of another owner', async (owner, status, code) => {
    const examined = await examineSandbox({ owners: 2 }, ({ url }) => [
      ...['--probe-url', `${url}/echo`, '--expect-owner', owner],
    ]);
    expect(examined.code).toBe(code);
    expect(examined.of('probe')?.status).toBe(status);
    expect(examined.of('owner')?.status).toBe(code === 0 ? 'ok' : undefined);
  });

  it('reads at most 64 KiB of the resource, and takes no owner from a longer response', async () => {
    const padding = (bytes: number) => 'x'.repeat(bytes - '{"owner":"theirs","padding":""}'.length);
    const examineWith = (bytes: number) =>
      examineService(
        (request, response) => {
          if (request.method === 'POST') response.end('{"access_token":"t","expires_in":60}');
          else if (request.headers.authorization === undefined) response.writeHead(401).end();
          else response.end(JSON.stringify({ owner: 'theirs', padding: padding(bytes) }));
        },
        (url) => ['--probe-url', `${url}/me`, '--expect-owner', 'mine'],
      );
    expect((await examineWith(65_536)).of('probe')).toMatchObject({ status: 'failed', facts: { wrongOwner: true } });
    const beyond = await examineWith(65_537);
    expect(beyond.of('probe')?.status).toBe('ok');
    expect(beyond.of('owner')?.status).toBe('skipped');
  });

  it('detects that a second token belongs to another owner', async () => {
    let tokens = 0;
    const service: RequestListener = (request, response) => {
      if (request.method === 'POST') response.end(`{"access_token":"t${++tokens}","expires_in":60}`);
      else if (request.headers.authorization === undefined) response.writeHead(401).end();
      else response.end(JSON.stringify({ owner: `owner of ${request.headers.authorization}` }));
    };
    const { code, of } = await examineService(service, (url) => ['--probe-url', `${url}/me`, '--allow-revocation']);
    expect({ code, tokens }).toEqual({ code: 1, tokens: 2 });
    expect(of('revocation')).toMatchObject({ status: 'failed', facts: { wrongOwner: true } });
  });

  it('whose resource refuses a fresh token fails', async () => {
    const { code, of } = await examineSandbox({ profile: { replicationLagMs: 60_000 } }, ({ url }) => [
      '--probe-url',
      `${url}/echo`,
      '--allow-revocation',
    ]);
    expect(code).toBe(1);
    expect(of('probe')).toMatchObject({ status: 'failed', facts: { status: 401 } });
    expect(of('revocation')?.status).toBe('skipped');
  });

  it('of an open resource is inconclusive, and no second token is requested', async () => {
    let tokens = 0;
    const open: RequestListener = (request, response) => {
      if (request.method === 'POST') tokens++;
      response.end('{"access_token":"same"}');
    };
    const { code, of } = await examineService(open, (url) => ['--probe-url', `${url}/x`, '--allow-revocation']);
    expect(of('probe')?.status).toBe('warning');
    expect(of('revocation')?.status).toBe('skipped');
    expect({ code, tokens }).toEqual({ code: 0, tokens: 1 });
  });

  it('detects that the same token was issued again', async () => {
    const { of } = await withTwoFaces((url) => ['--probe-url', `${url}/x`, '--allow-revocation']);
    expect(of('revocation')).toMatchObject({ status: 'ok', facts: { sameToken: true } });
  });

  it('is sent only to allowed origins', async () => {
    const visits: (string | undefined)[] = [];
    const other: RequestListener = (request, response) => {
      visits.push(request.headers.authorization);
      response.writeHead(request.headers.authorization ? 302 : 401, { location: '/elsewhere' }).end();
    };
    await using sandbox = await startSandbox({ owners: 1 });
    await withServer(other, async (port) => {
      const origin = `http://127.0.0.1:${port}`;
      const refused = await runCommand(['doctor', '--probe-url', `${origin}/canary`], envOf(sandbox));
      expect(refused).toMatchObject({ code: 2, out: '' });
      expect(refused.err).toContain('--allow-origin');
      expect(refused.err).not.toContain('canary');
      expect(visits).toEqual([]);
      expect(sandbox.ledger.entries()).toEqual([]);
      const { of } = await examine(envOf(sandbox), ['--probe-url', `${origin}/x`, '--allow-origin', origin]);
      expect(visits).toEqual([undefined, expect.stringMatching(/^Bearer sbx_/)]);
      expect(of('probe')).toMatchObject({ status: 'warning', facts: { status: 302 } });
    });
  });
});

it.each([
  ['https://api.invalid', 'https://api.invalid.evil/me'],
  ['https://api.invalid', 'https://api.invalid:8443/me'],
  ['https://api.invalid', 'http://api.invalid/me'],
  ['http://127.0.0.1:4010', 'http://127.0.0.1:40101/me'],
])('with the base URL %s, a probe of %s is refused: origins are compared as a whole', async (OTR_BASE_URL, url) => {
  const args = ['doctor', '--probe-url', url, '--allow-insecure-http'];
  const { code, err } = await runCommand(args, { ...CANARIES, OTR_BASE_URL });
  expect(code).toBe(2);
  expect(err).toContain('not on the origin of OTR_BASE_URL');
});

it('a probe over plain http to a host that only looks like a loopback address is refused', async () => {
  const origin = 'http://127.evil.invalid';
  const args = ['doctor', '--probe-url', `${origin}/me`, '--allow-origin', origin];
  const { code, err } = await runCommand(args, { ...CANARIES, OTR_BASE_URL: 'https://api.invalid' });
  expect(code).toBe(2);
  expect(err).toContain('--probe-url: plain http would send the token unencrypted');
});

/** A service that always issues the same token, with a resource that requires it. */
const withTwoFaces = (args: (url: string) => string[]): Promise<Examined> =>
  examineService((request, response) => {
    const isIn = request.method === 'POST' || request.headers.authorization === 'Bearer same';
    response.writeHead(isIn ? 200 : 401).end('{"access_token":"same","expires_in":60}');
  }, args);

describe('the written profile', () => {
  it.each<Partial<Profile>>([
    { shape: 'rfc6749', lifetimeSeconds: 900, revokePrevious: true },
    { shape: 'minimal', tokenFormat: 'jwt', lifetimeSeconds: 1200 },
    { shape: 'odd', lifetimeSeconds: 1800, odd: { lifetimeAs: 'string', camelCase: true, wrapped: true } },
    { shape: 'odd', lifetimeSeconds: 1800, odd: { lifetimeAs: 'milliseconds', camelCase: true, wrapped: false } },
    {
      shape: 'odd',
      lifetimeSeconds: 77,
      tokenFormat: 'jwt',
      odd: { lifetimeAs: 'milliseconds', camelCase: false, wrapped: true },
    },
    { shape: 'odd', lifetimeSeconds: 600, odd: { lifetimeAs: 'number', camelCase: true, wrapped: false } },
  ])('makes a sandbox behave like the examined service: %j', async (profile) => {
    const file = join(folder, 'profile.json');
    const options = { owners: 1, profile } as SandboxOptions;
    const first = await examineSandbox(options, ({ url }) => [
      ...['--probe-url', `${url}/echo`, '--allow-revocation'],
      ...['--write-profile', file],
    ]);
    expect(first).toMatchObject({ code: 0, err: '' });
    expect(first.report.differences).toEqual([]);
    const written = JSON.parse(readFileSync(file, 'utf8')) as SandboxOptions;
    const { lifetimeSeconds, ...rest } = profile;
    expect(written).toMatchObject({ lifetimeSeconds, profile: rest });
    // The sandbox command does the same with --config F.
    expect(await answerOf({ owners: 1, seed: 1, ...written })).toEqual(await answerOf({ ...options, seed: 1 }));
  });

  it('comes with the differences that a sandbox cannot express', async () => {
    const { report } = await examineService(says({ result: { 'Access-Token': 't', ttl: 9 } }));
    expect(report.differences).toEqual([
      'token: result.Access-Token (sandbox: data.access_token)',
      'token type: absent (sandbox: data.token_type)',
      'lifetime: result.ttl (sandbox: data.expires_in)',
    ]);
  });

  it('is the only reason to list these differences in the text', async () => {
    await withServer(says({ result: { 'Access-Token': 't', ttl: 9 } }), async (port) => {
      const env = { ...CANARIES, OTR_BASE_URL: `http://127.0.0.1:${port}` };
      const plain = await runCommand(['doctor'], env);
      const withProfile = await runCommand(['doctor', '--write-profile', join(folder, 'different.json')], env);
      expect(plain.out).not.toContain('Differences');
      expect(withProfile.out).toContain(
        'Differences that a sandbox profile cannot express\n  token: result.Access-Token',
      );
    });
  });

  it('is not written without a token', async () => {
    const file = join(folder, 'none.json');
    const { code, err } = await examineSandbox({ faults: [{ kind: 'status', status: 503 }] }, () => [
      '--write-profile',
      file,
    ]);
    expect(code).toBe(1);
    expect(err).toContain('no profile was written');
    expect(() => readFileSync(file)).toThrow('ENOENT');
  });
});

/** A sandbox's answer without its token, and whether a second token revokes the first. */
async function answerOf(options: SandboxOptions): Promise<object> {
  await using sandbox = await startSandbox(options);
  const TOKEN = /(?<=[Tt]oken":")[^"]{12,}/;
  const body = (await askToken(sandbox)).text;
  const token = TOKEN.exec(body)?.[0] ?? '';
  await askToken(sandbox);
  const { status } = await echo(sandbox, token);
  const claims = token.includes('.') && JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  return { body: body.replace(TOKEN, ''), firstIsGood: status, ...(claims && { life: claims.exp - claims.iat }) };
}

describe('a usage error', () => {
  it.each([
    [['--allow-revocation'], '--allow-revocation: requires --probe-url'],
    [['--expect-owner', 'canary'], '--expect-owner: requires --probe-url'],
    [['--probe-url', 'canary'], '--probe-url: expected'],
    [['--probe-url', 'http://u:canary@127.0.0.1/'], '--probe-url: expected'],
    [['--allow-origin', 'https://canary.example/path'], '--allow-origin: expected'],
    [['--timeout', 'canary'], '--timeout: expected'],
    [['--timeout', '600.001'], '--timeout: expected'],
    [['--access-key=canary'], 'secrets are read from the environment'],
    [['--probe-ulr', 'x'], 'did you mean --probe-url?'],
  ])('of doctor is rejected, and nothing is sent: %j', async (args, why) => {
    await using sandbox = await startSandbox({ owners: 1 });
    const ended = await runCommand(['doctor', ...args], envOf(sandbox));
    expect(ended).toMatchObject({ code: 2, out: '' });
    expect(ended.err).toContain(why);
    expect(ended.err).not.toContain('canary');
    expect(sandbox.ledger.entries()).toEqual([]);
  });
});
