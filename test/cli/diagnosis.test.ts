/** What `token` and `doctor` say about the cause of a failure: real servers, each with one mistake. */

import type { RequestListener } from 'node:http';
import { createServer, type Server } from 'node:https';
import { describe, expect, it } from 'vitest';
import { adviceOnCertificate } from '../../src/cli/diagnosis.ts';
import { type Profile, startSandbox } from '../../src/sandbox/index.ts';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from '../helpers/loopback-certificate.ts';
import { runCommand } from '../helpers/terminal.ts';
import { withServer } from '../helpers/with-server.ts';

const CANARIES = { OTR_CLIENT_ID: 'canary-id', OTR_CLIENT_SECRET: 'canary-secret', OTR_ACCESS_KEY: 'canary-key' };

/** The advice of both commands, which must be the same. */
async function adviceFor(env: Record<string, string>, flags: readonly string[] = []): Promise<string> {
  const token = await runCommand(['token', '--json', ...flags], env);
  const doctor = await runCommand(['doctor', '--json', ...flags], env);
  expect([token.code, doctor.code]).toEqual([1, 1]);
  expect(token.out + token.err + doctor.out + doctor.err).not.toMatch(/canary/);
  const { advice } = JSON.parse(token.out).error as { advice: string };
  const checks = JSON.parse(doctor.out).checks as { check: string; advice?: string }[];
  const found = checks.find(({ check }) => check === 'token')?.advice ?? checks.find((each) => each.advice)?.advice;
  expect(found?.startsWith(advice), `token: ${advice}\ndoctor: ${found}`).toBe(true);
  return advice;
}

/** The advice for a service with this handler, at a path of its address. */
const adviceForService = (answer: RequestListener | Server, path = '', scheme = 'http'): Promise<string> =>
  withServer(answer, (port) => adviceFor({ ...CANARIES, OTR_BASE_URL: `${scheme}://127.0.0.1:${port}${path}` }));

const answers =
  (status: number, body = '', headers: Record<string, string> = {}): RequestListener =>
  (_, response) =>
    response.writeHead(status, headers).end(body);

describe('a wrong address', () => {
  it.each([404, 405, 410, 501])('is the first suspect when the answer is %d', async (status) => {
    const advice = await adviceForService(answers(status));
    expect(advice).toContain(
      'Is OTR_BASE_URL right? The token endpoint is <OTR_BASE_URL>/auth/v1/token; for another path, give --token-path.',
    );
    expect(advice).not.toMatch(/OTR_ACCESS_KEY|refuses/);
  });

  it.each([
    ['/auth', 'Remove /auth from its end'],
    ['/api/auth/v1/', 'Remove /auth/v1 from its end'],
    ['/canary', 'It has a path, to which /auth/v1/token is appended: try it without the path, or give --token-path.'],
  ])('with the path %s has its remedy', async (path, expected) => {
    expect(await adviceForService(answers(404), path)).toContain(expected);
  });

  it('of a sandbox portal is recognised', async () => {
    await using sandbox = await startSandbox({ owners: 1 });
    expect(await adviceFor({ ...CANARIES, OTR_BASE_URL: sandbox.portalUrl })).toContain(
      'address of the sandbox portal',
    );
  });

  it('is named beside an unknown access key where it may be either', async () => {
    await using sandbox = await startSandbox({ owners: 1, profile: { revokedKey: 'not_found' } });
    sandbox.revokeAccessKey(sandbox.accessKeys[0] ?? '');
    const { url: OTR_BASE_URL, clientId: OTR_CLIENT_ID, clientSecret: OTR_CLIENT_SECRET } = sandbox;
    const [OTR_ACCESS_KEY = ''] = sandbox.accessKeys;
    const key = OTR_ACCESS_KEY || 'unknown';
    const env = { OTR_BASE_URL, OTR_CLIENT_ID, OTR_CLIENT_SECRET, OTR_ACCESS_KEY: key };
    expect(await adviceFor(env)).toMatch(/OTR_ACCESS_KEY/);
  });

  it('of a website is recognised by its page', async () => {
    const page = answers(200, '<!doctype html><title>Log in</title>', { 'content-type': 'text/html' });
    expect(await adviceForService(page)).toContain('The response is an HTML page');
  });
});

describe('a wrong scheme', () => {
  it('is recognised: http:// to a TLS port', async () => {
    const server = createServer({ key: LOOPBACK_KEY, cert: LOOPBACK_CERTIFICATE });
    expect(await adviceForService(server)).toBe(
      'OTR_BASE_URL begins with http://, but this port speaks TLS. Use https://.',
    );
  });

  it('is recognised: https:// to a port without TLS', async () => {
    expect(await adviceForService(() => {}, '', 'https')).toContain('this port does not speak TLS');
  });

  it('is not suspected when an http port merely fails', async () => {
    expect(await adviceForService((_, response) => response.destroy())).not.toContain('TLS');
  });
});

describe('a gateway', () => {
  /** What nginx answers, byte by byte, when `ssl_verify_client` is on and the client has no certificate. */
  const NGINX =
    '<html>\r\n<head><title>400 No required SSL certificate was sent</title></head>\r\n<body>\r\n' +
    '<center><h1>400 Bad Request</h1></center>\r\n<center>No required SSL certificate was sent</center>\r\n' +
    '<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n';
  const html = { 'content-type': 'text/html' };

  it('that asks for a client certificate leads to --cert', async () => {
    const advice = await adviceForService(answers(400, NGINX, html));
    expect(advice).toBe(
      'A gateway answered, not the service. Does it require a client certificate (--cert and --key)?',
    );
    expect(await adviceForService(answers(496))).toBe(advice);
  });

  it('that refuses with a page of its own may be a firewall', async () => {
    expect(await adviceForService(answers(403, '<html>blocked</html>', html))).toMatch(/firewall.*OTR_CLIENT_SECRET/);
  });
});

describe('a service that accepts connections and hangs', () => {
  it('is not mistaken for one that cannot be reached', async () => {
    const { out } = await withServer(
      () => {},
      (port) => runCommand(['doctor', '--timeout', '0.2'], { ...CANARIES, OTR_BASE_URL: `http://127.0.0.1:${port}` }),
    );
    expect(out).toContain('accepts connections but does not answer in time');
    expect(out).not.toMatch(/Is OTR_BASE_URL right|can this machine reach/);
  });
});

describe('a request of the wrong form', () => {
  it.each([
    [415, '', 'does not take this encoding. Try --form or --basic'],
    [400, '{"error":"invalid_request"}', 'misses a parameter, or does not read this encoding'],
    [400, '{"error":"unsupported_grant_type"}', 'does not offer the client credentials grant'],
  ])('answered with %d and %s has advice of its own', async (status, body, expected) => {
    const advice = await adviceForService(answers(status, body));
    expect(advice).toContain(expected);
    expect(advice).toContain('tokenRequest');
  });
});

describe('a certificate', () => {
  const tls = { key: LOOPBACK_KEY, cert: LOOPBACK_CERTIFICATE };

  it('of an unknown issuer has its remedy', async () => {
    expect(await adviceForService(createServer(tls), '', 'https')).toBe(
      'This machine does not trust the issuer. If you do, pass its certificate with --ca or NODE_EXTRA_CA_CERTS.',
    );
  });

  it.each([
    ['CERT_HAS_EXPIRED', 'has expired'],
    ['CERT_NOT_YET_VALID', 'is not yet valid'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'was issued for another name'],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', '--ca'],
  ])('with the problem %s has its remedy', (problem, expected) => {
    expect(adviceOnCertificate(problem)).toContain(expected);
  });
});

describe('a refusal', () => {
  it.each([
    [401, 'Unauthorized'],
    [401, '{"message":"bad credentials"}'],
    [400, '{"error":{"code":17}}'],
    [422, ''],
    [401, '{"error":"wrong_secret"}'],
  ])('of %d with the body %s does not claim that the client was accepted', async (status, body) => {
    const advice = await adviceForService(answers(status, body));
    expect(advice).toContain('Check OTR_CLIENT_ID, OTR_CLIENT_SECRET and OTR_ACCESS_KEY.');
    expect(advice).not.toContain('accepts the client');
  });

  it.each<Profile['errorForm']>(['problem', 'text', 'html', 'empty', 'echoing', 'rfc6749'])(
    'of a wrong secret in the form %s names OTR_CLIENT_SECRET',
    async (errorForm) => {
      await using sandbox = await startSandbox({ owners: 1, profile: { errorForm } });
      const advice = await adviceFor({ ...CANARIES, OTR_BASE_URL: sandbox.url });
      expect(advice).toContain('OTR_CLIENT_SECRET');
      expect(advice).not.toContain('accepts the client');
    },
  );

  /** The advice for a service that refuses with this status and error code, for a command with these flags. */
  const adviceWith = (flags: readonly string[], status: number, error?: string, env = {}) =>
    withServer(answers(status, JSON.stringify({ error })), (port) =>
      adviceFor({ ...CANARIES, OTR_BASE_URL: `http://127.0.0.1:${port}`, ...env }, flags),
    );

  it('of a scope concerns the scope that was given, and the access key only without one', async () => {
    const expected = 'Is the scope of --extra (OTR_TOKEN_EXTRA) right, and may this client have it?';
    expect(await adviceWith(['--extra', 'scope=read'], 400, 'invalid_scope')).toContain(expected);
    expect(await adviceWith([], 400, 'invalid_scope', { OTR_TOKEN_EXTRA: 'scope=read' })).toContain(expected);
    expect(await adviceWith(['--extra', 'audience=a'], 400, 'invalid_scope')).toContain('Is OTR_ACCESS_KEY current');
  });

  it.each([
    [400, 'invalid_scope', 'Does it require an access key, or a scope (--extra scope=…)?'],
    [400, 'invalid_grant', 'Does it require an access key, or a scope (--extra scope=…)?'],
    [401, undefined, 'Check OTR_CLIENT_ID and OTR_CLIENT_SECRET. Does it require an access key?'],
    [404, undefined, 'Is OTR_BASE_URL right?'],
  ])('of %d %s without an access key does not blame one', async (status, error, expected) => {
    const advice = await adviceWith(['--no-access-key'], status, error);
    expect(advice).toContain(expected);
    expect(advice).not.toContain('OTR_ACCESS_KEY');
  });

  it('proves the client credentials valid only if it names the owner', async () => {
    expect(await adviceForService(answers(400, '{"error":"invalid_grant"}'))).toMatch(
      /accepts the client but refuses this owner.*OTR_ACCESS_KEY/,
    );
  });
});

describe('Retry-After', () => {
  it.each([429, 503])('of a %d is shown', async (status) => {
    expect(await adviceForService(answers(status, '', { 'retry-after': '37' }))).toContain('in 37 s (Retry-After)');
  });

  it('is not invented', async () => {
    expect(await adviceForService(answers(429))).toBe('Too many requests. Try again later.');
  });
});

describe('advice on a redirect', () => {
  it('names the origin that it leads to', async () => {
    const to = answers(307, '', { location: 'https://api.example.com/auth/v1/token?session=canary' });
    expect(await adviceForService(to)).toContain('This redirect leads to https://api.example.com: set OTR_BASE_URL');
  });

  it('says when it leads to another path on the same host', async () => {
    expect(await adviceForService(answers(302, '', { location: '/login/canary' }))).toContain('is it a login page');
  });

  it('says when it leads from http to https', async () => {
    const toHttps: RequestListener = (request, response) =>
      response.writeHead(301, { location: `https://${request.headers.host}${request.url}` }).end();
    expect(await adviceForService(toHttps)).toContain('Use https:// in OTR_BASE_URL');
  });

  it('names no target whose host repeats a secret in lower case', async () => {
    const env = { ...CANARIES, OTR_ACCESS_KEY: 'Canary-Key-2' };
    const to = answers(302, '', { location: `https://${env.OTR_ACCESS_KEY}.example.com/` });
    const advice = await withServer(to, (port) => adviceFor({ ...env, OTR_BASE_URL: `http://127.0.0.1:${port}` }));
    expect(advice).not.toContain('example.com');
  });

  it.each([{ location: 'https://canary-secret.example.com/' }, { location: 'https://%00' }, {}] as Record<
    string,
    string
  >[])('names no target of %j', async (headers) => {
    expect(await adviceForService(answers(302, '', headers))).toBe(
      'Secrets are never sent to a redirect target. Set OTR_BASE_URL to the final address.',
    );
  });
});
