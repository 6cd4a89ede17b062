import { describe, expect, it } from 'vitest';
import { startSandbox } from '../../src/sandbox/index.ts';
import { json, LoopbackService } from '../helpers/loopback-service.ts';
import { oddAddresses, WatchedServer } from '../helpers/odd-addresses.ts';
import { readSource } from '../helpers/source-files.ts';
import { runCommand } from '../helpers/terminal.ts';

const CANARIES = { OTR_CLIENT_ID: 'canary-id', OTR_CLIENT_SECRET: 'canary-secret', OTR_ACCESS_KEY: 'canary-key' };

describe.each(['token', 'doctor'])('%s', (command) => {
  it('names all missing variables at once', async () => {
    const { code, err } = await runCommand([command], { OTR_CLIENT_ID: 'x', OTR_ACCESS_KEY: '' });
    expect(code).toBe(2);
    expect(err).toContain('not set in the environment: OTR_BASE_URL, OTR_CLIENT_SECRET, OTR_ACCESS_KEY');
  });

  it.each([
    ['localhost:4010', 'add http://'],
    ['127.0.0.1:4010/canary', 'add http://'],
    ['[::1]:4010', 'add http://'],
    ['canary.example.com', 'add https://'],
    ['canary.example.com:8443/path', 'add https://'],
    ['canary', 'expected a URL such as https://'],
    ['https://', 'expected a URL such as https://'],
    ['ftp://canary.example.com', 'expected http:// or https://'],
    ['"https://canary.example.com"', 'remove the quotation marks'],
    ['https://me:canary@example.com', 'remove the user name and password'],
    ['https://example.com?canary', 'remove everything from the "?" on'],
    ['https://example.com/#canary', 'remove everything from the "#" on'],
    ['http://canary.example.com', 'plain http would send the secrets unencrypted: use https://'],
    ['http://127.canary.example.com', 'plain http would send the secrets unencrypted: use https://'],
  ])('explains what is wrong with OTR_BASE_URL, without repeating it: %s', async (url, expected) => {
    const { code, out, err } = await runCommand([command], { ...CANARIES, OTR_BASE_URL: url });
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(`OTR_BASE_URL: ${expected}`);
    expect(err).not.toContain('canary');
  });

  it.each([
    [(value: string) => `${value}\n`, 'begins or ends with white space'],
    [(value: string) => `"${value}"`, 'is enclosed in quotation marks'],
    [(value: string) => `“${value}”`, 'is enclosed in quotation marks'],
  ])('warns of what copying leaves around a value: %s', async (wrap, expected) => {
    await using sandbox = await startSandbox({ owners: 1 });
    const { url: OTR_BASE_URL, clientId: OTR_CLIENT_ID, clientSecret: OTR_CLIENT_SECRET } = sandbox;
    const OTR_ACCESS_KEY = wrap(sandbox.accessKeys[0] ?? '');
    const { code, err } = await runCommand([command], {
      OTR_BASE_URL,
      OTR_CLIENT_ID,
      OTR_CLIENT_SECRET,
      OTR_ACCESS_KEY,
    });
    expect(code).toBe(1);
    expect(err).toContain(`warning: OTR_ACCESS_KEY ${expected}`);
    expect(err).not.toContain(sandbox.accessKeys[0]);
  });

  it.each(['', 'canary-key'])('sends no access key with --no-access-key, where OTR_ACCESS_KEY is "%s"', async (key) => {
    await using service = await LoopbackService.start();
    const env = { ...CANARIES, OTR_ACCESS_KEY: key, OTR_BASE_URL: service.url };
    const { code, out } = await runCommand([command, '--no-access-key'], env);
    expect(code).toBe(0);
    expect(out).not.toMatch(/^owner +owner_/m);
    expect(service.calls.map(({ fields }) => fields)).toEqual([
      { grant_type: 'client_credentials', client_id: 'canary-id', client_secret: 'canary-secret' },
    ]);
  });

  it.each([
    ['//tenant', '//tenant'],
    ['/\\tenant', '//tenant'],
    ['///tenant', '///tenant'],
    ['/.//tenant', '//tenant'],
    ['//tenant//', '//tenant'],
    ['//', ''],
  ])('sends the request to the host that was typed, with %s between host and /auth/v1/token', async (typed, path) => {
    await using service = await LoopbackService.start();
    const env = { ...CANARIES, OTR_BASE_URL: `${service.url}${typed}/auth/v1/token` };
    expect(await runCommand([command], env)).toMatchObject({ code: 0 });
    expect(service.calls.map((call) => call.path)).toEqual([`${path}/auth/v1/token`]);
  });

  it('sends secrets only to the host that was typed, of several hundred odd addresses', async () => {
    const watch = () => WatchedServer.start(undefined, 0, '127.0.0.1', '404 Not Found');
    await using one = await watch();
    await using other = await watch();
    const ends = ['', '/auth/v1/token', '/oauth/token'];
    const odd = oddAddresses({ good: one.host, evil: other.host });
    const addresses = odd.map((address, at) => `${address}${ends[at % ends.length]}`);
    expect(addresses.length).toBeGreaterThan(400);
    const reached: string[] = [];
    const wrong: string[] = [];
    for (const address of addresses) {
      const { out, err } = await runCommand([command], { ...CANARIES, OTR_BASE_URL: address });
      expect(out + err, address).not.toMatch(/unexpected error|failed: \w*Error|canary/);
      const port = URL.canParse(address) ? new URL(address).port : 'none';
      for (const { host, received } of [one, other]) {
        if (!received.splice(0).some((text) => text.includes('canary'))) continue;
        (host.endsWith(`:${port}`) ? reached : wrong).push(address);
      }
    }
    expect(wrong).toEqual([]);
    expect(reached.length).toBeGreaterThan(100);
  });
});

it('--probe-url sends the token only to an allowed origin, of several hundred odd addresses', async () => {
  await using service = (await LoopbackService.start()).always(json(200, { access_token: 'canary-token' }));
  await using other = await WatchedServer.start();
  const hosts = { good: new URL(service.url).host, evil: other.host };
  for (const address of oddAddresses(hosts)) {
    await runCommand(['doctor', '--probe-url', address], { ...CANARIES, OTR_BASE_URL: service.url });
    expect({ address, received: other.received }).toEqual({ address, received: [] });
  }
  const probes = service.calls.filter(({ headers }) => headers.authorization?.startsWith('Bearer '));
  expect(probes.length).toBeGreaterThan(80);
});

it('no command resolves a path against a URL that was checked: the path may name another host', () => {
  const resolving = readSource()
    .filter(({ path, tree }) => path.startsWith('cli/') && /new URL\([^()]*,(?! import\.meta\.url\))/.test(tree.text))
    .map(({ path }) => path);
  expect(resolving).toEqual([]);
});
