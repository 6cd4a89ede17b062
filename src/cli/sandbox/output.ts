/** What the sandbox command prints. */

import { parseEnv } from 'node:util';
import type { LedgerEntry, Sandbox } from '../../sandbox/index.ts';
import type { Judged } from './report.ts';

/** The address of the portal, with its token where one is required. */
export function portalLinkOf({ portalUrl, portalToken }: Sandbox): string {
  return portalToken === undefined ? portalUrl : `${portalUrl}/?token=${encodeURIComponent(portalToken)}`;
}

/** For people: the addresses, and a first request to try. */
export function bannerOf(sandbox: Sandbox): string {
  const { url, accessKeys } = sandbox;
  const rows = [
    ['token service', `${url}  (POST /auth/v1/token, GET /echo)`],
    ['portal', portalLinkOf(sandbox)],
    ['owners', `${accessKeys.length}; access keys are in the portal`],
    ['credentials', 'in the portal, or with --print-env or --json'],
  ];
  const table = rows.map(([name, value]) => `${name?.padEnd(16)}${value}\n`).join('');
  return `${table}\nRequest a token:\n  ${curlOf(sandbox)}\n\nPress Ctrl-C to stop.\n`;
}

/** Reads the secrets from their files when it runs: what a terminal shows ends up in logs. */
function curlOf(sandbox: Sandbox): string {
  const { secret, accessKey } = secretsOf(sandbox);
  const fields = [
    ['grant_type', 'client_credentials'],
    ['client_id', sandbox.clientId.replace(/["$`\\]/g, '\\$&')],
    ['client_secret', secret],
    ['appliance_owner_scope', accessKey],
  ];
  const body = fields.map(([name, value]) => `\\"${name}\\":\\"${value}\\"`).join(',');
  return `curl ${sandbox.url}/auth/v1/token -H 'content-type: application/json' -d "{${body}}"`;
}

/** Commands of a shell that print the client secret, and the first access key. */
function secretsOf({ env }: Sandbox): { secret: string; accessKey: string } {
  const { OTR_CLIENT_SECRET_FILE: secret, OTR_ACCESS_KEYS_FILE: keys } = parseEnv(env);
  return { secret: `$(cat '${secret}')`, accessKey: `$(head -n 1 '${keys}')` };
}

/** A command that an integration is started with. */
export function clientCommandOf(sandbox: Sandbox): string {
  const { secret, accessKey } = secretsOf(sandbox);
  const settings = `OTR_BASE_URL=${sandbox.url} OTR_CLIENT_ID=${sandbox.clientId} OTR_CLIENT_SECRET="${secret}"`;
  return `${settings} OTR_ACCESS_KEY="${accessKey}" node your-integration.js`;
}

/** For programs: everything that an integration needs. */
export function credentialsOf(sandbox: Sandbox): object {
  const { url, portalUrl, portalToken, clientId, clientSecret, accessKeys } = sandbox;
  return { url, portalUrl, ...(portalToken !== undefined && { portalToken }), clientId, clientSecret, accessKeys };
}

/** One request: when, what, for whom, how it ended, how long it took. */
export function requestLine(request: LedgerEntry): string {
  const { atMs, kind, method, owner, outcome, status, durationMs = 0, error, faultKind, fault, wasted } = request;
  const notes = [error, (faultKind ?? fault) && `fault: ${faultKind ?? fault}`, wasted && 'wasted'].filter(Boolean);
  return [
    new Date(atMs).toISOString().slice(11, 23),
    method.padEnd(4),
    kind.padEnd(5),
    (owner ?? '-').padEnd(12),
    String(status ?? '-').padEnd(3),
    outcome.padEnd(12),
    `${Math.round(durationMs)} ms`.padStart(8),
    ...(notes.length > 0 ? [` ${notes.join(', ')}`] : []),
  ].join(' ');
}

export function verdictLines({ scenario, verdict: { verdict, reason, conditions, findings } }: Judged): string {
  const lines = [
    ...conditions.map(({ condition, observed, met }) => `  ${met ? '•' : '–'} ${condition}: ${observed}`),
    ...findings.map(({ expectation, observed, passed }) => `  ${passed ? '✓' : '✗'} ${expectation}: ${observed}`),
    ...(reason === undefined ? [] : [`  ${reason}`]),
  ];
  return `Scenario ${scenario.name}: ${verdict}\n${lines.map((line) => `${line}\n`).join('')}`;
}
