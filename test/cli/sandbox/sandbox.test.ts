import { execFile, execFileSync } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseEnv, promisify } from 'node:util';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { runCommandLine } from '../../../src/cli/commands.ts';
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
  /** Resolves when it has printed something that matches. */
  until(pattern: RegExp): Promise<string>;
}

/** Runs the command with free ports, calls `look` once it has printed, then stops it as Ctrl-C does. */
async function running<T>(
  args: string[],
  look: (running: Running) => Promise<T>,
  env: Record<string, string> = {},
): Promise<{ code: number; seen: T; out: string }> {
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
  const ended = runCommandLine(['sandbox', ...args], { env, out, err: { write }, signal: stop.signal });
  const until = async (pattern: RegExp): Promise<string> => {
    while (!pattern.test(text)) await once(printed, 'text', { signal: AbortSignal.timeout(10_000) });
    return text;
  };
  const first = await Promise.race([until(/\S/), ended.then(() => text)]);
  const seen = await look({ first, printed: () => text, until }).finally(() => stop.abort());
  return { seen, code: await ended, out: outText };
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
      names: ['OTR_ACCESS_KEY', 'OTR_ACCESS_KEYS', 'OTR_BASE_URL', 'OTR_CLIENT_ID', 'OTR_CLIENT_SECRET', 'PORTAL_URL'],
      statuses: [200, 200, 200],
      portal: 200,
      isFirst: true,
    });
  });

  it('prints the same credentials for the same seed', async () => {
    const credentials = async () => {
      const { seen } = await running([...FREE, '--print-env', '--seed', '7'], async ({ first }) => first);
      return seen.split('\n').filter((line) => !line.includes('_URL=') && !line.startsWith('#'));
    };
    expect(await credentials()).toEqual(await credentials());
  });

  it('prints a banner with its addresses, the place of the credentials, and a request that works', async () => {
    const { seen } = await running([...FREE, '--owners', '2'], async ({ first }) => {
      const curl = /^ {2}(curl .*)$/m.exec(first)?.[1] ?? '';
      const { stdout } = await promisify(execFile)('sh', ['-c', `${curl} --silent`]);
      return { banner: first, answer: JSON.parse(stdout) };
    });
    expect(seen.banner).toMatch(/^token service {3}http:\/\/127\.0\.0\.1:\d+ {2}\(POST/);
    expect(seen.banner).toMatch(/^portal {10}http:\/\/127\.0\.0\.1:\d+$/m);
    expect(seen.banner).toMatch(/^owners {10}2; access keys are in the portal$/m);
    expect(seen.banner).toMatch(/^credentials {5}in the portal, or with --print-env/m);
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

  it.each([
    [['--port', 'x'], '--port: expected a number'],
    [['--exit-code'], '--exit-code: requires --scenario'],
    [['--port', '70000'], '- --port: expected an integer from 0 to 65535'],
    [['--owners=-1'], '- --owners: expected an integer'],
    [['--scenario', 'flood'], '--scenario: expected one of cold-start'],
    [['--prot', '1'], 'did you mean --port?'],
    [['--config', join(folder, 'none.json')], '--config: the file cannot be read (ENOENT)'],
    [['--config', file('broken.json', '{"owners"')], '--config: the file is not JSON'],
    [['--config', file('list.json', '[]')], '--config: expected a JSON object'],
    [['--config', file('typo.json', '{"owner":1}')], 'did you mean owners?'],
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

  it('are kept with --state, also where they are not the defaults', async () => {
    const state = join(folder, 'ports.json');
    const first = await portsOf(['--state', state, ...FREE]);
    const second = await portsOf(['--state', state]);
    expect(first.seen.port).toBeGreaterThan(0);
    expect(second.seen).toEqual(first.seen);
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

describe('--state', () => {
  const accessKeys = async (args: string[]) =>
    (await running(['--json', ...FREE, ...args], async ({ first }) => JSON.parse(first).accessKeys as string[])).seen;

  it('keeps owners and access keys', async () => {
    const state = join(folder, 'state.json');
    expect(await accessKeys(['--state', state])).toEqual(await accessKeys(['--state', state]));
  });

  it('takes --owners beside an existing file, and refuses what contradicts it', async () => {
    const state = join(folder, 'owners.json');
    const few = await accessKeys(['--state', state, '--owners', '2', '--seed', '1']);
    const more = await accessKeys(['--state', state, '--owners', '4']);
    expect(more.slice(0, 2)).toEqual(few);
    expect(more).toHaveLength(4);
    for (const flags of [
      ['--owners', '1'],
      ['--seed', '2'],
    ]) {
      const { code, err } = await runCommand(['sandbox', ...FREE, '--state', state, ...flags]);
      expect(code).toBe(2);
      expect(err).toMatch(
        /^owner-token-registry sandbox: --state: state file .*(leave out the (number of owners|seed))/,
      );
    }
  });

  it.each([
    ['a path in no folder', () => join(folder, 'nowhere/state.json'), 'its folder does not exist'],
    ['a directory', () => folder, 'not a regular file'],
    ['a damaged file', () => file('damaged.json', '{"format":1,'), 'damaged, it is not JSON'],
    ['a file of something else', () => file('else.json', '{"name":"canary"}'), 'damaged, it is not a state'],
    ['a file in place of a folder', () => join(file('file', 'text'), 'state.json'), 'its folder is a file'],
    ['a name that is too long', () => join(folder, 'x'.repeat(300)), 'its name is too long'],
    ['a name that is too long for the lock beside it', () => join(folder, 'x'.repeat(255)), 'its name is too long'],
    ['a loop of links', () => loop(), 'its symbolic links form a loop'],
    ['a device without an end', () => '/dev/zero', 'not a regular file'],
    ['a terminal', () => '/dev/tty', 'not a regular file'],
    ['a pipe', () => pipe(), 'not a regular file'],
    // Not even root may create a file here. Elsewhere than on Linux there is no such folder.
    ['a folder without permission', () => '/sys/state.json', 'no permission|its folder does not exist|EROFS'],
  ])('explains %s in one sentence, and leaves it as it is', async (_, pathOf, expected) => {
    const path = pathOf();
    const before = [looksOf(path), readdirSync(folder)];
    const { code, out, err } = await runCommand(['sandbox', ...FREE, '--state', path]);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(
      new RegExp(`^owner-token-registry sandbox: --state: state file .*(${expected}).*\nRun .* for usage.\n$`),
    );
    expect(err).not.toMatch(/defect|canary|\n +at /);
    expect([looksOf(path), readdirSync(folder)]).toEqual(before);
  });

  function loop(): string {
    symlinkSync('loop-b', join(folder, 'loop-a'));
    symlinkSync('loop-a', join(folder, 'loop-b'));
    return join(folder, 'loop-a');
  }

  function pipe(): string {
    const path = join(folder, 'pipe');
    execFileSync('mkfifo', [path]);
    return path;
  }

  /** What a path names, with the text of a regular file; undefined if it names nothing. */
  function looksOf(path: string): unknown {
    try {
      const stat = lstatSync(path);
      return [stat.mode, stat.mtimeMs, stat.isFile() ? readFileSync(path, 'utf8') : ''];
    } catch {
      return undefined;
    }
  }
});

describe('--scenario with --exit-code', () => {
  const NAME = 'mass-expiry';

  /** Runs the scenario against an integration of one owner that sends so many requests after all tokens expired. */
  const judged = (requests: number, format: string[]) =>
    running([...FREE, ...format, '--owners', '1', '--scenario', NAME, '--exit-code'], async ({ first, until }) => {
      const env = parseEnv(first);
      const facts = format.includes('--json')
        ? JSON.parse(first)
        : { url: env.OTR_BASE_URL, portalUrl: env.PORTAL_URL, clientId: env.OTR_CLIENT_ID };
      facts.clientSecret ??= env.OTR_CLIENT_SECRET;
      const [accessKey] = facts.accessKeys ?? [env.OTR_ACCESS_KEY];
      await tokenRequest(facts, accessKey);
      // It begins once there is a token, and lasts for half a minute of the sandbox's time.
      const state = async () => (await fetch(`${facts.portalUrl}/api/state`)).json() as Promise<{ scenario?: unknown }>;
      await vi.waitUntil(async () => (await state()).scenario, { timeout: 10_000 });
      for (let n = 0; n < requests; n++) await tokenRequest(facts, accessKey);
      const headers = { 'content-type': 'application/json' };
      await fetch(`${facts.portalUrl}/api/clock`, { method: 'POST', headers, body: '{"advanceMs":31000}' });
      return await until(/passed|failed/);
    });

  it('waits for the integration, prints the verdict, and exits with 0 if it passed', async () => {
    const { code, seen } = await judged(1, ['--json']);
    const verdict = JSON.parse(seen.trim().split('\n')[1] ?? '');
    expect(verdict).toMatchObject({ scenario: NAME, passed: true });
    expect(verdict.findings.length).toBeGreaterThan(1);
    expect(code).toBe(0);
  });

  it('exits with 1 if it wasted requests', async () => {
    const { code, seen, out } = await judged(3, ['--print-env']);
    expect(seen).toContain(`Scenario ${NAME}: failed`);
    expect(seen).toMatch(/✗ .*: 2 wasted requests/);
    expect(seen).toContain('# Sandbox ready. Portal: http');
    expect(out).not.toMatch(/Scenario|ready/); // Standard output is an .env file.
    expect(code).toBe(1);
  });

  it('is ended by Ctrl-C with 130', async () => {
    const args = [...FREE, '--json', '--scenario', NAME, '--exit-code'];
    expect((await running(args, async ({ first }) => first)).code).toBe(130);
  });
});
