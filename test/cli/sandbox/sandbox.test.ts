import { execFile } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv, promisify } from 'node:util';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { runCommandLine } from '../../../src/cli/commands.ts';
import { SCENARIOS } from '../../../src/sandbox/index.ts';
import { runCommand } from '../../helpers/terminal.ts';

const folder = mkdtempSync(join(tmpdir(), 'sandbox-command-'));
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

/** A running sandbox command. */
interface Running {
  /** What it printed on standard output first, and all that it printed on either stream. */
  readonly first: string;
  printed(): string;
  /** Resolves when it has printed something that matches. `meanwhile` is called over and over until then. */
  until(pattern: RegExp, meanwhile?: () => Promise<void>): Promise<string>;
}

/** Runs the command with free ports, calls `look` once it has printed, then stops it as Ctrl-C does. */
async function running<T>(
  args: string[],
  look: (running: Running) => Promise<T>,
  env: Record<string, string> = {},
): Promise<{ code: number; seen: T; out: string; text: string }> {
  const stop = new AbortController();
  const printed = new EventEmitter();
  let text = '';
  let outText = '';
  const write = (chunk: string | Uint8Array) => {
    text += String(chunk);
    return printed.emit('text');
  };
  const out = {
    write(chunk: string | Uint8Array) {
      outText += String(chunk);
      return write(chunk);
    },
  };
  let isOver = false;
  const ended = runCommandLine(['sandbox', ...args], { env, out, err: { write }, signal: stop.signal }).finally(() => {
    isOver = true;
  });
  const until = async (pattern: RegExp, meanwhile?: () => Promise<void>): Promise<string> => {
    const { signal } = stop;
    while (!pattern.test(text)) {
      if (isOver) throw new Error(`it ended with: ${text}`);
      if (meanwhile) await meanwhile();
      else await once(printed, 'text', { signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]) });
    }
    return text;
  };
  const first = await Promise.race([until(/\S/), ended.then(() => text)]);
  const seen = await look({ first, printed: () => text, until }).finally(() => stop.abort());
  const code = await ended;
  return { seen, code, out: outText, text };
}

const FREE = ['--port', '0', '--portal-port', '0'];

interface Facts {
  readonly url: string;
  readonly portalUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly accessKeys: readonly string[];
}

const tokenRequest = (facts: Pick<Facts, 'url' | 'clientId' | 'clientSecret'>, accessKey: string) =>
  fetch(`${facts.url}/auth/v1/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      grant_type: 'client_credentials',
      client_id: facts.clientId,
      client_secret: facts.clientSecret,
      appliance_owner_scope: accessKey,
    }),
  });

describe('sandbox', () => {
  it('prints one object with --json, accepts the credentials in it, and exits with 0', async () => {
    const { code, seen } = await running(
      [...FREE, '--json', '--owners', '3', '--lifetime', '90'],
      async ({ first }) => {
        const facts = JSON.parse(first);
        const answer = await tokenRequest(facts, facts.accessKeys[2]);
        const portal = await fetch(`${facts.portalUrl}/livez`);
        return { keys: facts.accessKeys.length, answer: await answer.json(), portal: portal.status, url: facts.url };
      },
    );
    expect(seen).toMatchObject({ keys: 3, answer: { expires_in: 90 }, portal: 200 });
    expect(code).toBe(0);
    await expect(fetch(seen.url)).rejects.toThrow();
  });

  it('prints the settings of an integration with --print-env, all of them usable', async () => {
    const { seen } = await running([...FREE, '--print-env', '--owners', '3'], async ({ first }) => {
      const env = parseEnv(first) as Record<string, string>;
      const keys = (env.OTR_ACCESS_KEYS ?? '').split(',');
      const facts = {
        url: env.OTR_BASE_URL ?? '',
        clientId: env.OTR_CLIENT_ID ?? '',
        clientSecret: env.OTR_CLIENT_SECRET ?? '',
      };
      const statuses = await Promise.all(keys.map(async (key) => (await tokenRequest(facts, key)).status));
      const portal = await fetch(`${env.PORTAL_URL}/livez`);
      return {
        names: Object.keys(env).sort(),
        statuses,
        portal: portal.status,
        isFirst: keys[0] === env.OTR_ACCESS_KEY,
      };
    });
    expect(seen).toEqual({
      names: [
        ...['OTR_ACCESS_KEY', 'OTR_ACCESS_KEYS', 'OTR_ACCESS_KEYS_FILE', 'OTR_BASE_URL', 'OTR_CLIENT_ID'],
        ...['OTR_CLIENT_SECRET', 'OTR_CLIENT_SECRET_FILE', 'PORTAL_URL'],
      ],
      statuses: [200, 200, 200],
      portal: 200,
      isFirst: true,
    });
  });

  it('prints no more keys than a shell can take; the file holds all', async () => {
    const { seen } = await running([...FREE, '--print-env', '--owners', '5000'], async ({ first }) => {
      const path = file('many.env', first);
      // An external command, which gets all of them in its environment.
      const script = `set -a; . ${path}; env -u NOTHING sh -c 'wc -l < "$OTR_ACCESS_KEYS_FILE"; head -n 1 "$OTR_ACCESS_KEYS_FILE"'`;
      const { stdout } = await promisify(execFile)('sh', ['-c', script]);
      return { printed: stdout.trim().split(/\s+/), env: parseEnv(first) };
    });
    expect(seen.printed).toEqual(['5000', seen.env.OTR_ACCESS_KEY]);
    expect(seen.env).not.toHaveProperty('OTR_ACCESS_KEYS');
  });

  it('keeps the secret and the keys in files, through a rotation, and removes its own folder', async () => {
    const files = join(folder, 'secrets');
    const { seen } = await running([...FREE, '--print-env', '--secrets-folder', files], async ({ first }) => {
      const env = parseEnv(first);
      const read = () => readFileSync(env.OTR_CLIENT_SECRET_FILE ?? '', 'utf8');
      const before = read();
      const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' };
      await fetch(`${env.PORTAL_URL}/api/client/rotate`, init);
      const credentials = (await (await fetch(`${env.PORTAL_URL}/api/credentials`)).json()) as {
        clientSecret: string;
        env: string;
      };
      return { env, before, after: read(), credentials };
    });
    expect(seen.before).toBe(seen.env.OTR_CLIENT_SECRET);
    expect(seen.after).toBe(seen.credentials.clientSecret);
    expect(seen.after).not.toBe(seen.before);
    expect(parseEnv(seen.credentials.env)).toEqual({ ...seen.env, OTR_CLIENT_SECRET: seen.after });
    expect(readFileSync(join(files, 'access-keys'), 'utf8')).toBe(
      `${seen.env.OTR_ACCESS_KEYS?.replaceAll(',', '\n')}\n`,
    );
    expect(statSync(join(files, 'client-secret')).mode & 0o777).toBe(0o600);
    const { seen: temporary } = await running([...FREE, '--print-env'], async ({ first }) => parseEnv(first));
    expect(existsSync(temporary.OTR_CLIENT_SECRET_FILE ?? '')).toBe(false);
  });

  it('prints a banner with its addresses, the place of the credentials, and a request that works', async () => {
    const { seen } = await running([...FREE, '--owners', '2'], async ({ first }) => {
      const curl = /^ {2}(curl .*)$/m.exec(first)?.[1] ?? '';
      const run = async (command: string) => (await promisify(execFile)('sh', ['-c', command])).stdout;
      const secrets = await Promise.all(
        [...curl.matchAll(/\$\((.+?)\)/g)].map(([, command]) => run(command as string)),
      );
      return { banner: first, answer: JSON.parse(await run(`${curl} --silent`)), secrets };
    });
    expect(seen.secrets).toHaveLength(2);
    for (const secret of seen.secrets) expect(seen.banner).not.toContain(secret.trim());
    expect(seen.banner).toMatch(/^token service {3}http:\/\/127\.0\.0\.1:\d+ {2}\(POST/);
    expect(seen.banner).toMatch(/^portal {10}http:\/\/127\.0\.0\.1:\d+$/m);
    expect(seen.banner).toMatch(/^owners {10}2; access keys are in the portal$/m);
    expect(seen.banner).toMatch(/^credentials {5}in the portal, or with --print-env or --json$/m);
    expect(seen.answer).toMatchObject({ expires_in: 3600 });
  });

  it('links to the portal with its token where one is required', async () => {
    const { seen } = await running([...FREE, '--host', '0.0.0.0'], async ({ first }) => {
      const link = /^portal +(\S+)$/m.exec(first)?.[1] ?? '';
      return { link, status: (await fetch(link, { redirect: 'manual' })).status };
    });
    expect(seen.link).toMatch(/\?token=sbx_control_/);
    expect(seen.status).toBe(303);
  });

  it('opens the portal with --open', async () => {
    const opened = join(folder, 'opened');
    const browser = file('browser.sh', `#!/bin/sh\nprintf %s "$1" > ${opened}.tmp && mv ${opened}.tmp ${opened}\n`);
    chmodSync(browser, 0o755);
    const { seen } = await running(
      [...FREE, '--open'],
      async ({ first }) => {
        await vi.waitUntil(() => existsSync(opened), { timeout: 10_000 });
        return { link: readFileSync(opened, 'utf8'), banner: first };
      },
      { BROWSER: browser },
    );
    expect(seen.banner).toContain(`${seen.link}\n`);
  });

  it('warns when no browser can be opened', async () => {
    const env = { BROWSER: join(folder, 'no-such-browser') };
    const { code } = await running(
      [...FREE, '--open'],
      ({ until }) => until(/warning: no browser could be opened/),
      env,
    );
    expect(code).toBe(0);
  });

  it('prints one line per request with --verbose', async () => {
    const { seen } = await running([...FREE, '--json', '--verbose', '--owners', '1'], async ({ first, until }) => {
      const facts = JSON.parse(first);
      await tokenRequest(facts, facts.accessKeys[0]);
      await tokenRequest(facts, facts.accessKeys[0]);
      await tokenRequest(facts, 'unknown');
      const text = await until(/invalid_grant/);
      return { lines: text.trim().split('\n').slice(1), secrets: [facts.clientSecret, facts.accessKeys[0]] };
    });
    const time = String.raw`\d\d:\d\d:\d\d\.\d{3}`;
    expect(seen.lines).toEqual([
      expect.stringMatching(new RegExp(`^${time} POST token owner-001 +200 issued +\\d+ ms$`)),
      expect.stringMatching(new RegExp(`^${time} POST token owner-001 +200 issued +\\d+ ms +wasted$`)),
      expect.stringMatching(new RegExp(`^${time} POST token - +400 refused +\\d+ ms +invalid_grant$`)),
    ]);
    for (const secret of seen.secrets) expect(seen.lines.join()).not.toContain(secret);
  });

  it('reads options from a file, lets flags override them, and starts with a scenario', async () => {
    const config = file('config.json', JSON.stringify({ owners: 4, profile: { shape: 'minimal' } }));
    const { seen } = await running(
      [...FREE, '--json', '--config', config, '--owners', '2', '--scenario', 'rate-limit-storm'],
      async ({ first }) => {
        const facts = JSON.parse(first);
        const statuses = new Set<number>();
        for (let n = 0; n < 12; n++) statuses.add((await tokenRequest(facts, facts.accessKeys[0])).status);
        return { keys: facts.accessKeys.length, statuses: [...statuses].sort() };
      },
    );
    expect(seen).toEqual({ keys: 2, statuses: [200, 429] });
  });

  const JUDGED = ['--scenario', 'cold-start', '--exit-code'];
  it.each([
    [['--host', 'x'.repeat(300)], 'cannot listen on this address'],
    [['--port', 'x'], '--port: expected a number'],
    [['--exit-code'], '--exit-code: requires --scenario'],
    [['--scenario', 'all'], '--scenario all: requires --exit-code'],
    [['--scenario', 'outage', '--report', 'verdict.xml'], '--report: requires --exit-code'],
    [[...JUDGED, '--report', 'verdict.html'], '--report: writes JUnit XML; give a file that ends in .xml'],
    [[...JUDGED, '--report', join(folder, 'none/verdict.xml')], '--report: the file cannot be written (ENOENT)'],
    [[...JUDGED, '--owners', '20'], '--owners: cold-start needs at least 200'],
    [['--secrets-folder', '/proc/none'], '--secrets-folder: expected a folder that can be written (ENOENT)'],
    [['--port', '70000'], '- --port: expected an integer from 0 to 65535'],
    [['--owners=-1'], '- --owners: expected an integer'],
    [['--scenario', 'flood'], '--scenario: expected all, or one of cold-start'],
    [['--prot', '1'], 'did you mean --port?'],
    [['--config', join(folder, 'none.json')], `--config: ${join(folder, 'none.json')} cannot be read (ENOENT)`],
    [['--config', 'none.json'], `--config: ${join(process.cwd(), 'none.json')} cannot be read (ENOENT)`],
    [['--config', '{"seed":7}'], '--config: the file cannot be read (ENOENT)'],
    [['--config', file('broken.json', '{"owners"')], `--config: ${join(folder, 'broken.json')} is not JSON`],
    [['--config', file('list.json', '[]')], `--config: ${join(folder, 'list.json')} holds no JSON object`],
    [['--config', file('typo.json', '{"owner":1}')], 'owner: unknown option; expected one of'],
  ])('rejects %j with the reason', async (args, why) => {
    const ended = await runCommand(['sandbox', ...args]);
    expect(ended.err).toContain(why);
    expect(ended).toMatchObject({ code: 2, out: '' });
  });
});

describe('ports', () => {
  /** The ports that the command listens on, and how it ended. */
  const portsOf = (args: string[]) =>
    running(['--json', ...args], async ({ first }) => {
      const { url, portalUrl } = JSON.parse(first);
      return { port: Number(new URL(url).port), portalPort: Number(new URL(portalUrl).port) };
    });

  it('are the defaults, or the next free ones', async () => {
    const { seen } = await running(['--json'], async ({ first }) => {
      const { url } = JSON.parse(first);
      return { first: Number(new URL(url).port), second: (await portsOf([])).seen.port };
    });
    expect(seen.first).toBeGreaterThanOrEqual(4010);
    expect(seen.first % 2).toBe(0);
    expect(seen.second).toBeGreaterThan(seen.first);
    expect(seen.second % 2).toBe(0);
  });

  it('that are given and in use are an error', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as { port: number };
    const ended = await runCommand(['sandbox', '--port', String(port)]);
    taken.close();
    expect(ended.code).toBe(2);
    expect(ended.err).toContain(`port ${port} is in use: choose another with --port`);
  });
});

describe('--scenario with --exit-code', () => {
  /** What an integration knows, and the controls of the sandbox's clock. */
  interface Client extends Facts {
    readonly state: () => Promise<{ scenario?: { name: string } }>;
    readonly advance: (ms: number) => Promise<void>;
    readonly send: (...accessKeys: (string | undefined)[]) => Promise<void>;
  }

  function clientOf(facts: Facts): Client {
    const headers = { 'content-type': 'application/json' };
    return {
      ...facts,
      state: async () => (await fetch(`${facts.portalUrl}/api/state`)).json() as ReturnType<Client['state']>,
      async advance(advanceMs) {
        // Once it has the verdict, the command closes the sandbox.
        const body = JSON.stringify({ advanceMs });
        await fetch(`${facts.portalUrl}/api/clock`, { method: 'POST', headers, body }).catch(() => {});
      },
      async send(...accessKeys) {
        for (const accessKey of accessKeys) await tokenRequest(facts, accessKey ?? '');
      },
    };
  }

  /** Runs a scenario of one minute against an integration that sends its first requests, then these. */
  const judged = (
    first: (client: Client) => Promise<void>,
    then: (client: Client) => Promise<void>,
    args: string[] = [],
  ) =>
    running(
      [...FREE, '--json', '--lifetime', '3600', '--scenario', 'owner-revoked', '--exit-code', ...args],
      async ({ first: printed, until }) => {
        const client = clientOf(JSON.parse(printed.split('\n')[0] ?? ''));
        await first(client);
        await until(/One owner revoked \(owner-revoked\)\n/, () => client.advance(500));
        await vi.waitUntil(async () => (await client.state()).scenario, { timeout: 10_000 });
        await then(client);
        await client.advance(61_000);
        return await until(/"verdict"/);
      },
    );

  const everyOwner = ({ send, accessKeys }: Client) => send(...accessKeys);

  it('waits for the first request, served or not, reports on standard error, and exits with 0 if it passed', async () => {
    const { code, seen, out } = await judged(({ send }) => send('unknown'), everyOwner);
    expect(seen).toMatch(/^Waiting up to a minute for the first token request at http/m);
    expect(seen).toMatch(/^ {2}60 s left, 0 token requests$/m);
    const [credentials, verdict, ...rest] = out.trim().split('\n');
    expect(JSON.parse(credentials ?? '')).toHaveProperty('accessKeys.length', 5);
    expect(JSON.parse(verdict ?? '')).toMatchObject({ scenario: 'owner-revoked', verdict: 'passed', passed: true });
    expect(rest).toEqual([]);
    expect(code).toBe(0);
  });

  it('exits with 1 if it failed, and with 3 if it was not tested', async () => {
    const wasteful = async (client: Client) => {
      await everyOwner(client);
      await everyOwner(client);
    };
    expect((await judged(everyOwner, wasteful)).code).toBe(1);
    expect((await judged(everyOwner, async () => {})).code).toBe(3);
  });

  it('writes a report for CI', async () => {
    const xml = join(folder, 'verdict.xml');
    const wasteful = ({ send, accessKeys: [first, second] }: Client) => send(first, second, second, second, second);
    await judged(({ send }) => send('unknown'), wasteful, ['--report', xml]);
    const junit = readFileSync(xml, 'utf8');
    expect(junit).toContain('<testsuite name="One owner revoked" tests="5" failures="1" errors="0" time="60">');
    expect(junit).toContain('name="Does not request a token for an owner that already has a valid one">');
    expect(junit).toContain('<failure message="3 wasted requests"/>');
    expect(junit).toContain('Acts for other owners throughout: 4 requests of 1 owner');
  });

  it('ends after a minute without a client, with the reason and a command to start one', async () => {
    const xml = join(folder, 'silent.xml');
    const args = [...FREE, '--print-env', '--scenario', 'outage', '--exit-code', '--report', xml];
    const { code, seen } = await running(args, async ({ first, until }) => {
      const { PORTAL_URL: portalUrl = '' } = parseEnv(first);
      return await until(/your-integration/, () => clientOf({ portalUrl } as Facts).advance(10_000));
    });
    expect(seen).toContain('No token request arrived within a minute: no integration uses this sandbox.');
    expect(seen).toMatch(/^ {2}OTR_BASE_URL=http\S+ OTR_CLIENT_ID=\S+ .* node your-integration\.js$/m);
    expect(seen).toContain('Scenario outage: not tested');
    expect(readFileSync(xml, 'utf8')).toContain('<error message="No token request arrived');
    expect(code).toBe(3);
  });

  it('runs every scenario in turn if the name is all, with the owners that they need', async () => {
    const args = [...FREE, '--json', '--scenario', 'all', '--exit-code'];
    const { code, seen } = await running(args, async ({ first, until }) => {
      const client = clientOf(JSON.parse(first.split('\n')[0] ?? ''));
      await client.send('unknown');
      const text = await until(/"scenario":"secret-rotated"/, () => client.advance(5_000));
      return {
        owners: client.accessKeys.length,
        names: [...text.matchAll(/"scenario":"([\w-]+)"/g)].map(([, name]) => name),
      };
    });
    expect(seen).toEqual({ owners: 200, names: SCENARIOS.map(({ name }) => name) });
    expect(code).toBe(3);
  });
});
