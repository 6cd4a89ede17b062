import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Sandbox, type SandboxOptions, startSandbox } from '../../../src/sandbox/index.ts';
import { askToken, echo, tokenFor } from '../client.ts';

let folder: string;
let stateFile: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sandbox-'));
  stateFile = join(folder, 'state.json');
});

afterEach(() => rmSync(folder, { recursive: true }));

const start = (options: SandboxOptions = {}): Promise<Sandbox> =>
  startSandbox({ ...(existsSync(stateFile) ? {} : { owners: 2 }), stateFile, ...options });

describe('a state file', () => {
  it('keeps owners, keys, secrets, profile and tokens over a restart', async () => {
    const first = await start();
    const added = first.addOwner({ id: 'added', name: 'Added' });
    const old = first.clientSecret;
    first.rotateClientSecret({ overlapMs: 3_600_000 });
    first.setProfile({ shape: 'odd', lifetimeSeconds: 7200 });
    first.revokeAccessKey(first.accessKeys[1] ?? '');
    first.clock.advance(3_000_000);
    const token = (await askToken(first)).json.data.accessToken;
    const ended = (await askToken(first, added.accessKey)).json.data.accessToken;
    first.revokeToken(ended);
    const before = [first.clientId, first.clientSecret, first.owners, first.profile];
    await first.close();

    await using second = await start();
    expect([second.clientId, second.clientSecret, second.owners, second.profile]).toEqual(before);
    expect((await echo(second, token)).json).toEqual({ owner: 'owner-001' });
    expect((await echo(second, ended)).status).toBe(401);
    expect((await askToken(second, undefined, { client_secret: old })).status).toBe(200);
    expect((await askToken(second, second.accessKeys[1])).json.error).toBe('invalid_grant');
    expect((await askToken(second)).json.data.accessToken).not.toBe(token);
  });

  it('is for nobody else to read, and leaves nothing beside it', async () => {
    const sandbox = await start();
    expect(statSync(stateFile).mode & 0o777).toBe(0o600);
    await sandbox.close();
    expect(readdirSync(folder)).toEqual(['state.json']);
  });

  it('is written while the sandbox runs, so that a crash loses little', async () => {
    await using sandbox = await start();
    const token = await tokenFor(sandbox);
    while (!readFileSync(stateFile, 'utf8').includes(token)) await new Promise((resolve) => setTimeout(resolve, 20));
  });

  it.each(['', '{', '{"format":99}', '{"format":1}', 'null'])(
    'that holds %j is refused, and left as it is',
    async (text) => {
      writeFileSync(stateFile, text);
      await expect(start()).rejects.toMatchObject({ name: 'StateFileError', code: 'state_damaged', path: stateFile });
      expect(readFileSync(stateFile, 'utf8')).toBe(text);
    },
  );

  it.each<[string, (state: Record<string, Record<string, unknown>[]>) => unknown]>([
    ['has no app', (state) => state.apps?.splice(0)],
    ['has an app without a secret', ({ apps }) => Object.assign(apps?.[0] ?? {}, { secrets: [] })],
    ['has an owner whose name is a number', ({ owners }) => Object.assign(owners?.[0] ?? {}, { name: 7 })],
    ['has an owner twice', ({ owners }) => owners?.push(owners[0] ?? {})],
    ['has an access key of an owner that is not there', ({ owners }) => owners?.splice(0, 1)],
    [
      'has the same secret for two access keys',
      ({ accessKeys }) => Object.assign(accessKeys?.[0] ?? {}, { value: accessKeys?.[1]?.value }),
    ],
    ['would issue the same secrets again', ({ secrets }) => Object.assign(secrets ?? {}, { made: 'many' })],
    ['has a member that is none of ours', (state) => Object.assign(state, { more: [] })],
  ])('that %s is refused, and left as it is', async (_, damage) => {
    await (await start()).close();
    const state = JSON.parse(readFileSync(stateFile, 'utf8'));
    damage(state);
    const text = JSON.stringify(state);
    writeFileSync(stateFile, text);
    await expect(start()).rejects.toMatchObject({ name: 'StateFileError', code: 'state_damaged' });
    expect(readFileSync(stateFile, 'utf8')).toBe(text);
  });

  it('is used by one sandbox at a time', async () => {
    const first = await start();
    await expect(start()).rejects.toThrow(new RegExp(`in use by another sandbox \\(process ${process.pid}\\)`));
    await expect(start()).rejects.toMatchObject({ code: 'state_locked' });
    await first.close();
    await using second = await start();
    expect(second.accessKeys).toEqual(first.accessKeys);
  });

  it('is taken over from a sandbox that has died', async () => {
    await (await start()).close();
    // No process has an id beyond the largest that Linux gives.
    writeFileSync(`${stateFile}.lock`, '4194305\n');
    const sandbox = await start();
    await sandbox.close();
    expect(existsSync(`${stateFile}.lock`)).toBe(false);
  });

  it('behind a symbolic link is written in its place, and the link stays', async () => {
    mkdirSync(join(folder, 'real'));
    const link = join(folder, 'link.json');
    symlinkSync(join('real', 'state.json'), link);
    await (await start({ stateFile: link })).close();
    const again = await start({ stateFile: link });
    await again.close();
    expect(lstatSync(link).isSymbolicLink()).toBe(true);
    expect(JSON.parse(readFileSync(join(folder, 'real', 'state.json'), 'utf8')).owners).toHaveLength(2);
  });

  it('is completed by options beside it, and refused if they conflict with it', async () => {
    await (await start({ seed: 1, owners: 4, lifetimeSeconds: 60 })).close();
    const conflict = { code: 'state_conflict' };
    await expect(start({ owners: 3 })).rejects.toMatchObject(conflict);
    await expect(start({ owners: 4, seed: 2 })).rejects.toThrow(/created with the seed 1: leave out the seed/);
    await using grown = await start({ owners: 6, seed: 1, lifetimeSeconds: 90, profile: { shape: 'minimal' } });
    expect(grown.owners).toHaveLength(6);
    expect(grown.profile).toMatchObject({ lifetimeSeconds: 90, shape: 'minimal' });
  });

  it('does not keep what a reset took back', async () => {
    const sandbox = await start();
    const keys = sandbox.accessKeys;
    sandbox.addOwner();
    sandbox.reset();
    await sandbox.close();
    await using again = await start();
    expect(again.accessKeys).toEqual(keys);
  });
});
