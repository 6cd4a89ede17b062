/** `owner-token-registry sandbox`: an emulated token service with its portal, until it is interrupted. */

import { spawn } from 'node:child_process';
import { type LedgerEntry, type Sandbox, SCENARIOS, type ScenarioName, type Verdict } from '../../sandbox/index.ts';
import { EXIT, readFlags, type Terminal, UsageError } from '../command.ts';
import { bannerOf, credentialsOf, environmentOf, portalLinkOf, requestLine, verdictLines } from './output.ts';
import { followRequests } from './requests.ts';
import { DEFAULT_PORTS, OPTION_FLAGS, openSandbox } from './start.ts';

export const usage = `Usage: owner-token-registry sandbox [options]

Emulates the token service on this machine until Ctrl-C. The portal shows what an integration does with it.

  --port N          port of the token service; default ${DEFAULT_PORTS.port}, or the next free one. 0: any free port
  --portal-port N   port of the portal and its admin API; default ${DEFAULT_PORTS.portalPort}, or the next free one. 0: any free port
  --host H          address to listen on; default 127.0.0.1
  --owners N        number of appliance owners, each with an access key; default 5
  --lifetime S      lifetime of a token in seconds; default 3600
  --seed N          derive credentials, access keys and tokens from this number: the same at every start
  --config F        JSON file with options of startSandbox (docs/sandbox.md); flags override it
  --state F         file that keeps owners, access keys, tokens and ports across restarts; it holds secrets
  --scenario NAME   start with a scenario: ${SCENARIOS.map(({ name }) => name).join(', ')}
  --exit-code       with --scenario: wait for the first token request, run the scenario, judge the integration, and exit
                    with 0 if it passed, 1 if not
  --open            open the portal in the browser
  --verbose         print one line per request
  --json            print one JSON object: url, portalUrl, clientId, clientSecret, accessKeys
  --print-env       print the settings of an integration in the format of an .env file
`;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = readFlags(args, {
    ...OPTION_FLAGS,
    scenario: { type: 'string' },
    'exit-code': { type: 'boolean' },
    open: { type: 'boolean' },
    verbose: { type: 'boolean' },
    json: { type: 'boolean' },
    'print-env': { type: 'boolean' },
  });
  if (flags.json && flags['print-env']) throw new UsageError('--json and --print-env cannot be combined');
  const scenario = scenarioOf(flags.scenario);
  if (flags['exit-code'] && !scenario) throw new UsageError('--exit-code: requires --scenario');
  await using sandbox = await openSandbox(flags);
  // Standard output is reserved for the machine-readable formats.
  const log = flags.json || flags['print-env'] ? terminal.err : terminal.out;
  if (flags.verbose) {
    const print = {
      onRequest: (request: LedgerEntry) => log.write(`${requestLine(request)}\n`),
      onLeftOut: (count: number) => log.write(`… and about ${count} more\n`),
    };
    await followRequests(sandbox, print, terminal.signal);
  }
  if (flags.json) terminal.out.write(`${JSON.stringify(credentialsOf(sandbox))}\n`);
  else terminal.out.write(flags['print-env'] ? environmentOf(sandbox) : bannerOf(sandbox));
  // Standard output usually goes to a file.
  if (flags['print-env']) log.write(`# Sandbox ready. Portal: ${portalLinkOf(sandbox)}\n`);
  if (flags.open) openBrowser(portalLinkOf(sandbox), terminal);
  if (scenario && flags['exit-code']) {
    const verdict = await verdictOf(sandbox, scenario, terminal.signal);
    if (flags.json) terminal.out.write(`${JSON.stringify({ scenario, ...verdict })}\n`);
    else log.write(verdictLines(scenario, verdict));
    return verdict.passed ? EXIT.ok : EXIT.failed;
  }
  if (scenario) sandbox.runScenario(scenario);
  await aborted(terminal.signal);
  return EXIT.ok;
}

function scenarioOf(name: string | undefined): ScenarioName | undefined {
  if (name === undefined) return undefined;
  const found = SCENARIOS.find((scenario) => scenario.name === name);
  if (!found) throw new UsageError(`--scenario: expected one of ${SCENARIOS.map((each) => each.name).join(', ')}`);
  return found.name;
}

/** How long an integration may take to send its first token request. */
const FIRST_REQUEST_MS = 60_000;
const POLL_MS = 20;

/** Runs a scenario after the integration's first token request. */
async function verdictOf(sandbox: Sandbox, scenario: ScenarioName, signal: AbortSignal): Promise<Verdict> {
  const deadlineMs = performance.now() + FIRST_REQUEST_MS;
  while (sandbox.ledger.count({ kind: 'token', outcome: 'issued' }) === 0 && performance.now() < deadlineMs) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    signal.throwIfAborted();
  }
  return sandbox.scenarios.run(scenario, { signal });
}

/** Opens a page with `$BROWSER`, or with the platform's own command. A failure is a warning: the link is in the banner. */
function openBrowser(url: string, { env, err }: Terminal): void {
  const native = { darwin: 'open', win32: 'explorer' }[process.platform as string] ?? 'xdg-open';
  const browser = spawn(env.BROWSER || native, [url], { stdio: 'ignore', detached: true });
  browser.once('error', () => err.write('warning: no browser could be opened; set BROWSER to the command of one\n'));
  browser.unref();
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
