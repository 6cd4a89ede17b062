/** `owner-token-registry sandbox`: an emulated token service with its portal, until it is interrupted. */

import { readFileSync } from 'node:fs';
import { OwnerTokenError } from '../index.ts';
import { type Sandbox, type SandboxOptions, SCENARIOS, type ScenarioName, startSandbox } from '../sandbox/index.ts';
import { EXIT, readFlags, type Terminal, UsageError } from './command.ts';

export const usage = `Usage: owner-token-registry sandbox [options]

Emulates the token service on this machine until Ctrl-C. The portal shows what an integration does with it.

  --port N          port of the token service; default 0: any free port
  --portal-port N   port of the portal and its admin API; default 0: any free port
  --host H          address to listen on; default 127.0.0.1
  --owners N        number of appliance owners, each with an access key; default 5
  --lifetime S      lifetime of a token in seconds; default 3600
  --seed N          derive credentials, access keys and tokens from this number: the same at every start
  --config F        JSON file with options of startSandbox (docs/sandbox.md); flags override it
  --state F         file that keeps owners, access keys and tokens across restarts; it holds secrets
  --scenario NAME   start with a scenario: ${SCENARIOS.map(({ name }) => name).join(', ')}
  --json            print one JSON object: url, portalUrl, clientId, clientSecret, accessKeys
  --print-env       print the settings of an integration in the format of an .env file
`;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = readFlags(args, {
    port: { type: 'string' },
    'portal-port': { type: 'string' },
    host: { type: 'string' },
    owners: { type: 'string' },
    lifetime: { type: 'string' },
    seed: { type: 'string' },
    config: { type: 'string' },
    state: { type: 'string' },
    scenario: { type: 'string' },
    json: { type: 'boolean' },
    'print-env': { type: 'boolean' },
  });
  if (flags.json && flags['print-env']) throw new UsageError('--json and --print-env cannot be combined');
  const scenario = scenarioOf(flags.scenario);
  const options: SandboxOptions = {
    ...(flags.config !== undefined && readConfig(flags.config)),
    ...numbers({
      port: ['--port', flags.port],
      portalPort: ['--portal-port', flags['portal-port']],
      owners: ['--owners', flags.owners],
      lifetimeSeconds: ['--lifetime', flags.lifetime],
      seed: ['--seed', flags.seed],
    }),
    ...(flags.host !== undefined && { host: flags.host }),
    ...(flags.state !== undefined && { stateFile: flags.state }),
  };
  await using sandbox = await start(options);
  if (scenario) sandbox.runScenario(scenario);
  if (flags.json) terminal.out.write(`${JSON.stringify(factsOf(sandbox))}\n`);
  else terminal.out.write(flags['print-env'] ? environmentOf(sandbox) : describe(sandbox));
  await stopped(terminal.signal);
  return EXIT.ok;
}

/** Parses the numeric flags. The sandbox checks their range. */
function numbers(flags: Record<string, [flag: string, value: string | undefined]>): Record<string, number> {
  const given = Object.entries(flags).filter(([, [, value]]) => value !== undefined);
  return Object.fromEntries(
    given.map(([name, [flag, value]]) => {
      if (!/^-?\d+(\.\d+)?$/.test(value ?? '')) throw new UsageError(`${flag}: expected a number`);
      return [name, Number(value)];
    }),
  );
}

function scenarioOf(name: string | undefined): ScenarioName | undefined {
  if (name === undefined) return undefined;
  const found = SCENARIOS.find((scenario) => scenario.name === name);
  if (!found) throw new UsageError(`--scenario: expected one of ${SCENARIOS.map((each) => each.name).join(', ')}`);
  return found.name;
}

/** Errors never quote the file: it may hold secrets. */
function readConfig(path: string): SandboxOptions {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`--config: the file cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  try {
    const options: unknown = JSON.parse(text);
    if (typeof options === 'object' && options !== null && !Array.isArray(options)) return options;
  } catch {
    throw new UsageError('--config: the file is not JSON');
  }
  throw new UsageError('--config: expected a JSON object with options of startSandbox');
}

/** Starts the sandbox and translates its errors into usage errors. */
async function start(options: SandboxOptions): Promise<Sandbox> {
  try {
    return await startSandbox(options);
  } catch (error) {
    const { code, port } = error as NodeJS.ErrnoException & { port?: number };
    if (code === 'EADDRINUSE') {
      throw new UsageError(
        `port ${port} is in use: choose another with --port or --portal-port, or 0 for any free port`,
      );
    }
    if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
      throw new UsageError(`cannot listen on this address (${code}): choose another --host or --port`);
    }
    if (error instanceof OwnerTokenError && error.code === 'invalid_options') throw new UsageError(error.message);
    throw error;
  }
}

function factsOf(sandbox: Sandbox): object {
  const { url, portalUrl, portalToken, clientId, clientSecret, accessKeys } = sandbox;
  return { url, portalUrl, ...(portalToken !== undefined && { portalToken }), clientId, clientSecret, accessKeys };
}

function environmentOf({ url, clientId, clientSecret, accessKeys }: Sandbox): string {
  return [
    `OTR_BASE_URL=${url}`,
    `OTR_CLIENT_ID=${clientId}`,
    `OTR_CLIENT_SECRET=${clientSecret}`,
    `OTR_ACCESS_KEY=${accessKeys[0] ?? ''}`,
    '',
  ].join('\n');
}

function describe({ url, portalUrl, portalToken, accessKeys }: Sandbox): string {
  const rows = [
    ['token service', `${url}  (POST /auth/v1/token, GET /echo)`],
    ['portal', portalUrl],
    ...(portalToken === undefined ? [] : [['portal token', portalToken]]),
    ['owners', `${accessKeys.length}; access keys are in the portal`],
  ];
  const table = rows.map(([name, value]) => `${name?.padEnd(16)}${value}\n`).join('');
  return `${table}\nPress Ctrl-C to stop. Run with --print-env for the settings of an integration, or with --json for all credentials.\n`;
}

function stopped(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
