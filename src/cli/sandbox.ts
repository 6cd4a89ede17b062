/** `owner-token-registry sandbox`: the service of the document on this machine, with its portal, until it is stopped. */

import { readFileSync } from 'node:fs';
import { OwnerTokenError } from '../index.ts';
import { type Sandbox, type SandboxOptions, SCENARIOS, type ScenarioName, startSandbox } from '../sandbox/index.ts';
import { EXIT, readFlags, type Terminal, UsageError } from './command.ts';

export const usage = `Usage: owner-token-registry sandbox [options]

Runs a sandbox of the token service, and the portal that shows what an integration does with it, until Ctrl-C.

  --port N          port of the token service; 0, the default, takes any free one
  --portal-port N   port of the portal and its admin API, likewise
  --host H          address to listen on; 127.0.0.1 by default
  --owners N        appliance owners to begin with, each with an access key; 5 by default
  --lifetime S      seconds that a token is good for; 3600 by default
  --seed N          the same credentials, keys and tokens at every start with the same number
  --config F        a JSON file with options of startSandbox (docs/sandbox.md); flags go before it
  --state F         a file that keeps owners, keys and good tokens over restarts; it holds secrets
  --scenario NAME   begin with this scenario: ${SCENARIOS.map(({ name }) => name).join(', ')}
  --json            one line with url, portalUrl, clientId, clientSecret and accessKeys
  --print-env       the settings of an integration as lines of an .env file
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
  if (flags.json && flags['print-env'])
    throw new UsageError('--json and --print-env each print what there is: take one');
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

/** Flags that are numbers. What is no number is refused here; what is no good one, by the sandbox. */
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

/** The file may hold secrets by mistake, so nothing of it is repeated. */
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

/** Starts it, and says in words what a wrong option or a port that is taken needs. */
async function start(options: SandboxOptions): Promise<Sandbox> {
  try {
    return await startSandbox(options);
  } catch (error) {
    const { code, port } = error as NodeJS.ErrnoException & { port?: number };
    if (code === 'EADDRINUSE') {
      throw new UsageError(
        `port ${port} is taken: choose another with --port and --portal-port, or 0 for any free one`,
      );
    }
    if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
      throw new UsageError(`this machine does not let it listen there (${code}): choose another --host or --port`);
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
    ['owners', `${accessKeys.length}, with their access keys in the portal`],
  ];
  const table = rows.map(([name, value]) => `${name?.padEnd(16)}${value}\n`).join('');
  return `${table}\nCtrl-C ends it. --print-env prints the settings of an integration, --json all that there is.\n`;
}

function stopped(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
