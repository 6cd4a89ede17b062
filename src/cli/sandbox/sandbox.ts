/** `owner-token-registry sandbox`: an emulated token service with its portal, until it is interrupted. */

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Sandbox, type SandboxOptions, SCENARIOS, type ScenarioName } from '../../sandbox/index.ts';
import { EXIT, type Output, readFlags, type Terminal, UsageError } from '../command.ts';
import { exitCodeOf, judge } from './judge.ts';
import { bannerOf, credentialsOf, portalLinkOf, requestLine, verdictLines } from './output.ts';
import { type Judged, writeReport } from './report.ts';
import { DEFAULT_PORTS, OPTION_FLAGS, openSandbox } from './start.ts';

const NAMES = SCENARIOS.map(({ name }) => name);

export const usage = `Usage: owner-token-registry sandbox [options]

Emulates the token service on this machine until Ctrl-C. The portal shows what an integration does with it.

  --port N             port of the token service; default ${DEFAULT_PORTS.port}, or the next free one. 0: any free port
  --portal-port N      port of the portal and its admin API; default ${DEFAULT_PORTS.portalPort}, or the next free one. 0: any free port
  --host H             address to listen on; default 127.0.0.1
  --owners N           number of appliance owners, each with an access key; default 5
  --lifetime S         lifetime of a token in seconds; default 3600
  --seed N             derive credentials and access keys from this number: the same at every start
  --config F           JSON file with options of startSandbox (docs/sandbox.md); flags override it
  --secrets-folder D   folder for the files client-secret and access-keys, which follow every change; default: a temporary one
  --open               open the portal in the browser
  --verbose            print one line per request
  --json               print one JSON object: url, portalUrl, clientId, clientSecret, accessKeys
  --print-env          print the settings of an integration in the format of an .env file

Judge an integration, for CI in any language:

  --scenario NAME      start with a scenario, or with "all" in turn:
                       ${NAMES.slice(0, 5).join(', ')},
                       ${NAMES.slice(5).join(', ')}
  --exit-code          with --scenario: wait for the first token request, run the scenario, judge the integration, and exit
                       with 0 if it passed, 1 if it failed, 3 if it was not tested. Changes two defaults: tokens live for
                       20 s, and there are as many owners as the scenario needs
  --report F           with --exit-code: write the verdicts to a file, as JUnit XML
`;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = readFlags(args, {
    ...OPTION_FLAGS,
    scenario: { type: 'string' },
    'exit-code': { type: 'boolean' },
    report: { type: 'string' },
    open: { type: 'boolean' },
    verbose: { type: 'boolean' },
    json: { type: 'boolean' },
    'print-env': { type: 'boolean' },
  });
  if (flags.json && flags['print-env']) throw new UsageError('--json and --print-env cannot be combined');
  const isJudged = flags['exit-code'] ?? false;
  const scenarios = scenariosOf(flags.scenario, isJudged);
  if (isJudged && scenarios.length === 0) throw new UsageError('--exit-code: requires --scenario');
  const { report: reportFile } = flags;
  if (reportFile !== undefined && !isJudged) throw new UsageError('--report: requires --exit-code');
  if (reportFile !== undefined && !reportFile.endsWith('.xml'))
    throw new UsageError('--report: writes JUnit XML; give a file that ends in .xml');
  // Fails now rather than after the scenarios if the file cannot be written.
  if (reportFile !== undefined) writeReport(reportFile, []);
  const folder = flags['secrets-folder'] ?? mkdtempSync(join(tmpdir(), 'owner-token-registry-'));
  let requests: NodeJS.Timeout | undefined;
  try {
    const defaults = isJudged ? suitable(scenarios, flags.owners) : {};
    await using sandbox = await openSandbox({ ...flags, 'secrets-folder': folder }, defaults);
    // Standard output is reserved for the machine-readable formats.
    const log = flags.json || flags['print-env'] ? terminal.err : terminal.out;
    if (flags.verbose) requests = printRequests(sandbox, log);
    print(sandbox, flags, terminal);
    if (isJudged) {
      const report = ({ scenario, verdict }: Judged) => {
        if (flags.json) terminal.out.write(`${JSON.stringify({ scenario: scenario.name, ...verdict })}\n`);
        else log.write(verdictLines({ scenario, verdict }));
      };
      const judged = await judge(sandbox, scenarios, terminal, report);
      if (reportFile !== undefined) writeReport(reportFile, judged);
      return exitCodeOf(judged);
    }
    for (const name of scenarios) sandbox.runScenario(name);
    await aborted(terminal.signal);
    return EXIT.ok;
  } finally {
    clearInterval(requests);
    if (flags['secrets-folder'] === undefined) rmSync(folder, { recursive: true, force: true });
  }
}

function scenariosOf(name: string | undefined, isJudged: boolean): readonly ScenarioName[] {
  if (name === undefined) return [];
  if (name === 'all') {
    if (isJudged) return NAMES;
    throw new UsageError('--scenario all: requires --exit-code');
  }
  const found = NAMES.find((each) => each === name);
  if (!found) throw new UsageError(`--scenario: expected all, or one of ${NAMES.join(', ')}`);
  return [found];
}

/** What the scenarios need, unless it was given. Says so before they start if too few owners were given. */
function suitable(names: readonly ScenarioName[], given: string | undefined): SandboxOptions {
  const demanding = SCENARIOS.filter(({ name }) => names.includes(name)).sort((a, b) => b.owners - a.owners)[0];
  const needed = demanding?.owners ?? 0;
  if (Number(given ?? needed) < needed) {
    throw new UsageError(`--owners: ${demanding?.name} needs at least ${needed}; leave --owners out to have as many`);
  }
  return { owners: Math.max(5, needed), lifetimeSeconds: 20 };
}

function print(
  sandbox: Sandbox,
  flags: { json?: boolean; 'print-env'?: boolean; open?: boolean },
  terminal: Terminal,
): void {
  if (flags.json) terminal.out.write(`${JSON.stringify(credentialsOf(sandbox))}\n`);
  else terminal.out.write(flags['print-env'] ? sandbox.env : bannerOf(sandbox));
  // Standard output usually goes to a file.
  if (flags['print-env']) terminal.err.write(`# Sandbox ready. Portal: ${portalLinkOf(sandbox)}\n`);
  if (flags.open) openBrowser(portalLinkOf(sandbox), terminal);
}

/** How often the ledger is read. */
const POLL_MS = 100;

/** Prints each request once it has ended. */
function printRequests({ ledger }: Sandbox, log: Output): NodeJS.Timeout {
  const open = new Set<number>();
  let lastId = 0;
  return setInterval(() => {
    for (const request of ledger.entries()) {
      if (request.id > lastId) open.add(request.id);
      lastId = Math.max(lastId, request.id);
      if (request.outcome !== 'pending' && open.delete(request.id)) log.write(`${requestLine(request)}\n`);
    }
  }, POLL_MS);
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
