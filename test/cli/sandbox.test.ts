import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { runCommandLine } from '../../src/cli/commands.ts';
import { runCommand } from '../helpers/terminal.ts';

const folder = mkdtempSync(join(tmpdir(), 'sandbox-command-'));
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

/** Runs the command, calls `look` with its first output, then stops it as Ctrl-C does. */
async function running<T>(args: string[], look: (printed: string) => Promise<T>): Promise<{ code: number; seen: T }> {
  const stop = new AbortController();
  let printed: (text: string) => void = () => {};
  const first = new Promise<string>((resolve) => {
    printed = resolve;
  });
  const out = {
    write(text: string | Uint8Array) {
      printed(String(text));
      return true;
    },
  };
  const ended = runCommandLine(['sandbox', ...args], { env: {}, out, err: out, signal: stop.signal });
  const seen = await look(await first).finally(() => stop.abort());
  return { seen, code: await ended };
}

const tokenRequest = (facts: { url: string; clientId: string; clientSecret: string }, accessKey: string) =>
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
    const { code, seen } = await running(['--json', '--owners', '3', '--lifetime', '90'], async (printed) => {
      const facts = JSON.parse(printed);
      const answer = await tokenRequest(facts, facts.accessKeys[2]);
      const portal = await fetch(`${facts.portalUrl}/livez`);
      return { keys: facts.accessKeys.length, answer: await answer.json(), portal: portal.status, url: facts.url };
    });
    expect(seen).toMatchObject({ keys: 3, answer: { expires_in: 90 }, portal: 200 });
    expect(code).toBe(0);
    await expect(fetch(seen.url)).rejects.toThrow();
  });

  it('prints the settings of an integration with --print-env, the same for the same seed', async () => {
    const printed = async () => (await running(['--print-env', '--seed', '7'], async (text) => text)).seen;
    const [first, second] = [await printed(), await printed()];
    expect(first).toMatch(/^OTR_BASE_URL=http.*\nOTR_CLIENT_ID=\S+\nOTR_CLIENT_SECRET=\S+\nOTR_ACCESS_KEY=\S+\n$/);
    expect(second.split('\n').slice(1)).toEqual(first.split('\n').slice(1));
  });

  it('prints its addresses and no secret', async () => {
    const { seen } = await running(['--owners', '2'], async (text) => text);
    expect(seen).toMatch(/^token service {3}http:\/\/127\.0\.0\.1:\d+ {2}\(POST/);
    expect(seen).toMatch(/^portal {10}http:\/\/127\.0\.0\.1:\d+$/m);
    expect(seen).toContain('2; access keys are in the portal');
    expect(seen).not.toMatch(/secret=|sbx_/i);
  });

  it('reads options from a file, lets flags override them, and starts with a scenario', async () => {
    const config = file('config.json', JSON.stringify({ owners: 4, profile: { shape: 'minimal' } }));
    const { seen } = await running(
      ['--json', '--config', config, '--owners', '2', '--scenario', 'rate-limit-storm'],
      async (printed) => {
        const facts = JSON.parse(printed);
        const statuses = new Set<number>();
        for (let n = 0; n < 12; n++) statuses.add((await tokenRequest(facts, facts.accessKeys[0])).status);
        return { keys: facts.accessKeys.length, statuses: [...statuses].sort() };
      },
    );
    expect(seen).toEqual({ keys: 2, statuses: [200, 429] });
  });

  it('keeps its state in a file', async () => {
    const state = join(folder, 'state.json');
    const keys = async () =>
      (await running(['--json', '--state', state], async (printed) => JSON.parse(printed).accessKeys)).seen;
    expect(await keys()).toEqual(await keys());
  });

  it('reports a port that is in use', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as { port: number };
    const ended = await runCommand(['sandbox', '--port', String(port)]);
    taken.close();
    expect(ended.code).toBe(2);
    expect(ended.err).toContain(`port ${port} is in use: choose another with --port`);
  });

  it.each([
    [['--port', 'x'], '--port: expected a number'],
    [['--port', '70000'], 'port: expected a whole number from 0 to 65535'],
    [['--owners=-1'], 'owners: expected a whole number'],
    [['--scenario', 'flood'], '--scenario: expected one of cold-start'],
    [['--json', '--print-env'], 'cannot be combined'],
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
