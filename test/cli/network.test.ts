/** `token` and `doctor` in a corporate network: a private CA, mutual TLS and a proxy, over real sockets. */

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import tls from 'node:tls';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { ConnectProxy } from '../helpers/connect-proxy.ts';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from '../helpers/loopback-certificate.ts';
import { LoopbackService, status } from '../helpers/loopback-service.ts';
import { ROOT } from '../helpers/source-files.ts';
import { runCommand } from '../helpers/terminal.ts';
import { startTlsService } from '../helpers/tls-service.ts';

const CANARIES = { OTR_CLIENT_ID: 'canary-id', OTR_CLIENT_SECRET: 'canary-secret', OTR_ACCESS_KEY: 'canary-key' };
const folder = mkdtempSync(join(tmpdir(), 'network-flags-'));
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, content: string): string {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

const CA = ['--ca', file('ca.pem', LOOPBACK_CERTIFICATE)];
const CLIENT = ['--cert', file('client.pem', LOOPBACK_CERTIFICATE), '--key', file('client.key', LOOPBACK_KEY)];

const envFor = (OTR_BASE_URL: string) => ({ ...CANARIES, OTR_BASE_URL });

describe.each(['token', 'doctor'])('%s', (command) => {
  it('trusts a private CA with --ca, and only then', async () => {
    await using service = await startTlsService({ mutual: false });
    expect((await runCommand([command], envFor(service.baseUrl))).code).toBe(1);
    expect((await runCommand([command, ...CA], envFor(service.baseUrl))).code).toBe(0);
  });

  it('presents a client certificate with --cert and --key', async () => {
    await using service = await startTlsService({ mutual: true });
    const refused = await runCommand([command, ...CA], envFor(service.baseUrl));
    expect(refused.code).toBe(1);
    expect(refused.out + refused.err).toContain('Does it require a client certificate (--cert and --key)?');
    expect((await runCommand([command, ...CA, ...CLIENT], envFor(service.baseUrl))).code).toBe(0);
  });

  it.each([
    [['--ca', join(folder, 'none.pem')], '--ca: the file cannot be read (ENOENT)'],
    [['--ca', file('text', 'canary')], '--ca: expected a PEM file'],
    [['--cert', file('c.pem', LOOPBACK_CERTIFICATE)], '--cert and --key: give both, or neither'],
    [
      ['--cert', file('bad.pem', '-----BEGIN CERTIFICATE-----\ncanary'), '--key', file('k', LOOPBACK_KEY)],
      'no usable certificate or key',
    ],
  ])('explains why it refuses %j', async (args, expected) => {
    const { code, err } = await runCommand([command, ...args], {
      ...CANARIES,
      OTR_BASE_URL: 'https://example.invalid',
    });
    expect(code).toBe(2);
    expect(err).toContain(expected);
    expect(err).not.toContain('canary');
  });
});

it('the probe of doctor uses the same CA and client certificate', async () => {
  await using service = await startTlsService({ mutual: true });
  const probe = ['--probe-url', `${service.baseUrl}/me`];
  const { code, out } = await runCommand(['doctor', '--json', ...CA, ...CLIENT, ...probe], envFor(service.baseUrl));
  expect(code).toBe(0);
  expect(JSON.parse(out).checks).toContainEqual(expect.objectContaining({ check: 'probe', status: 'ok' }));
});

const supportsProxy = process.allowedNodeEnvironmentFlags.has('--use-env-proxy');

describe('a proxy', () => {
  const env = { ...CANARIES, OTR_BASE_URL: 'https://service.invalid', HTTPS_PROXY: 'http://canary@127.0.0.1:1' };

  it.runIf(!supportsProxy)('that this Node cannot use is a warning', async () => {
    const { err } = await runCommand(['token'], env);
    expect(err).toMatch(/^warning: HTTPS_PROXY is ignored: this is Node \d+\S+, and Node supports proxies from 22\.21/);
    expect(err).not.toContain('canary');
  });

  describe.runIf(supportsProxy)('that this Node can use', () => {
    // Written with a dot, the name is that of the certificate, but not of this machine, for which no proxy is used.
    const beyond = ({ baseUrl }: { baseUrl: string }) => {
      const { port } = new URL(baseUrl);
      return { ...CANARIES, OTR_BASE_URL: `https://localhost.:${port}`, target: `localhost.:${port}` };
    };

    it.each([
      ['alone', false, CA],
      ['and a client certificate', true, [...CA, ...CLIENT]],
    ])('is used by token and doctor: %s', async (_, mutual, flags) => {
      await using service = await startTlsService({ mutual });
      await using proxy = await ConnectProxy.start('http', 'user:canary');
      const { target, ...credentials } = beyond(service);
      const HTTPS_PROXY = proxy.url.replace('://', '://user:canary@');
      for (const command of ['token', 'doctor']) {
        const { code, out, err } = await runCommand([command, ...flags], { ...credentials, HTTPS_PROXY });
        expect({ command, code, out: code === 0 ? '' : out, err }).toEqual({ command, code: 0, out: '', err: '' });
      }
      expect(new Set(proxy.targets)).toEqual(new Set([target]));
      const withoutPassword = await runCommand(['token', ...flags], { ...credentials, HTTPS_PROXY: proxy.url });
      expect(withoutPassword.code).toBe(1);
      expect(withoutPassword.out + withoutPassword.err).not.toContain('canary');
    });

    describe('over https', () => {
      const { getCACertificates, setDefaultCACertificates } = tls as unknown as {
        getCACertificates(type: 'default'): string[];
        setDefaultCACertificates(certificates: string[]): void;
      };
      const certificates = supportsProxy ? getCACertificates('default') : [];
      afterEach(() => setDefaultCACertificates(certificates));

      it.each(['token', 'doctor'])(
        'is trusted through its private CA with --ca, and only then: %s',
        async (command) => {
          await using service = await startTlsService({ mutual: false });
          await using proxy = await ConnectProxy.start('https');
          const { target, ...credentials } = beyond(service);
          const environment = { ...credentials, HTTPS_PROXY: proxy.url };
          expect((await runCommand([command], environment)).code).toBe(1);
          expect(proxy.targets).toEqual([]);
          const { code, out, err } = await runCommand([command, ...CA], environment);
          expect({ code, out: code === 0 ? '' : out, err }).toEqual({ code: 0, out: '', err: '' });
          expect(new Set(proxy.targets)).toEqual(new Set([target]));
        },
      );
    });

    // Node reads the variable when it starts.
    it.each(['http', 'https'] as const)('is used over %s, with the CA in NODE_EXTRA_CA_CERTS', async (scheme) => {
      await using service = await startTlsService({ mutual: false });
      await using proxy = await ConnectProxy.start(scheme);
      const { target, ...credentials } = beyond(service);
      const env = { ...credentials, HTTPS_PROXY: proxy.url, NODE_EXTRA_CA_CERTS: CA[1] };
      const code = `
        const { run } = await import(${JSON.stringify(join(ROOT, 'src/cli/doctor/doctor.ts'))});
        const { env, stdout: out, stderr: err } = process;
        process.exitCode = await run(['--json'], { env, out, err, signal: new AbortController().signal });
      `;
      const child = spawn(process.execPath, ['--no-warnings', '--input-type=module', '--eval', code], { env });
      const output = (await child.stdout.setEncoding('utf8').toArray()).join('');
      expect(JSON.parse(output)).toMatchObject({ ok: true });
      expect(new Set(proxy.targets)).toEqual(new Set([target]));
    });

    it.each([
      'http://',
      'http://127.0.0.1:99999',
      '127.0.0.1:1',
      '//127.0.0.1:1',
      'socks5://127.0.0.1:1',
      'http://%zz@127.0.0.1:1',
    ])('at an address that Node does not read is refused, not passed by: %s', async (HTTPS_PROXY) => {
      for (const command of ['token', 'doctor']) {
        const { code, err } = await runCommand([command], { ...env, HTTPS_PROXY });
        expect(code).toBe(2);
        expect(err).toContain('HTTPS_PROXY: expected a URL such as http://proxy.example.com:8080');
      }
    });

    it.each([
      [(url: string) => ({ HTTPS_PROXY: ` ${url.toUpperCase()}` })],
      [(url: string) => ({ HTTPS_PROXY: url.replace('//', '\\\\') })],
      [(url: string) => ({ HTTPS_PROXY: `${url}//127.0.0.1:1` })],
      [(https_proxy: string) => ({ https_proxy, HTTPS_PROXY: 'http://127.0.0.1:1' })],
    ])('is the one whose address was checked: %s', async (variables) => {
      await using service = await startTlsService({ mutual: false });
      await using proxy = await ConnectProxy.start();
      const { target, ...credentials } = beyond(service);
      expect((await runCommand(['token', ...CA], { ...credentials, ...variables(proxy.url) })).code).toBe(0);
      expect(new Set(proxy.targets)).toEqual(new Set([target]));
    });

    it('is not used for a probe of this machine, which may go by plain http', async () => {
      await using service = await startTlsService({ mutual: false });
      await using proxy = await ConnectProxy.start();
      await using resource = await LoopbackService.start();
      resource.always(status(200));
      const { target: _, ...credentials } = beyond(service);
      const probe = ['--probe-url', `${resource.url}/me`, '--allow-origin', resource.url];
      const variables = { ...credentials, HTTPS_PROXY: proxy.url, HTTP_PROXY: proxy.url };
      expect((await runCommand(['doctor', ...CA, ...probe], variables)).code).toBe(0);
      expect(resource.calls.map(({ path }) => path)).toEqual(['/me', '/me']);
    });

    it('is not used for hosts in NO_PROXY', async () => {
      await using service = await startTlsService({ mutual: false });
      await using proxy = await ConnectProxy.start();
      const { target: _, ...credentials } = beyond(service);
      await runCommand(['token', ...CA], { ...credentials, HTTPS_PROXY: proxy.url, NO_PROXY: 'localhost.' });
      expect(proxy.targets).toEqual([]);
    });
  });

  it('is not mentioned for a service on this machine', async () => {
    const { err } = await runCommand(['token'], { ...env, OTR_BASE_URL: 'https://127.0.0.1:1' });
    expect(err).not.toContain('HTTPS_PROXY');
  });
});
