import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { startSandbox } from '../../../../src/sandbox/index.ts';
import { curlOf } from '../../../../src/sandbox/portal/page/curl.ts';

const run = promisify(execFile);
const shell = (script: string, env: NodeJS.ProcessEnv) =>
  run('sh', ['-c', script], { env: { PATH: process.env.PATH, ...env } });

/** curl itself may be missing; what the shell would hand to it is what is looked at. */
const handedOver = async (script: string, env: NodeJS.ProcessEnv = {}) => {
  const { stdout } = await shell(`curl() { printf '%s\\n' "$@"; cat; }\n${script}`, env);
  return stdout;
};

it('a command names secrets by the environment variables that hold them, and its shell fills them in', async () => {
  const command = curlOf({ kind: 'token', owner: 'owner-001' }, 'http://127.0.0.1:1');
  expect(command).toContain('access key of owner-001');
  const said = await handedOver(command, { OTR_CLIENT_ID: 'id', OTR_CLIENT_SECRET: 'canary', OTR_ACCESS_KEY: 'key' });
  const [args, body] = [said.slice(0, said.indexOf('{')), said.slice(said.indexOf('{'))];
  expect(args).not.toContain('canary');
  expect(JSON.parse(body)).toEqual({
    grant_type: 'client_credentials',
    client_id: 'id',
    client_secret: 'canary',
    appliance_owner_scope: 'key',
  });
});

it('a command with secrets gets a token from the sandbox', async () => {
  await using sandbox = await startSandbox();
  const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
  const secrets = { baseUrl, clientId, clientSecret, owner: 'owner-001', accessKey: accessKeys[0] ?? '', env: '' };
  const said = await handedOver(curlOf({ kind: 'token', owner: 'owner-001' }, baseUrl, secrets));
  const [url] = said.match(/http:\S+/) ?? [];
  const body = said.slice(said.indexOf('{'));
  const headers = { 'content-type': 'application/json' };
  expect((await fetch(url ?? '', { method: 'POST', headers, body })).status).toBe(200);
});

it('a call is shown with the token in the environment, off the command line', async () => {
  const said = await handedOver(curlOf({ kind: 'echo', owner: 'a' }, 'http://127.0.0.1:1'), { OTR_TOKEN: 'canary' });
  expect(said.trimEnd().split('\n').at(-1)).toBe('authorization: Bearer canary');
});
