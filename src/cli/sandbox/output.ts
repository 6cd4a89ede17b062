/** What the sandbox command prints. */

import type { LedgerEntry, Sandbox } from '../../sandbox/index.ts';
import type { Judged } from './report.ts';

/** The address of the portal, with its token where one is required. */
export function portalLinkOf({ portalUrl, portalToken }: Sandbox): string {
  return portalToken === undefined ? portalUrl : `${portalUrl}/?token=${encodeURIComponent(portalToken)}`;
}

/** For people: the addresses, and a first request to try. Its credentials are made up. */
export function bannerOf(sandbox: Sandbox): string {
  const { url, accessKeys } = sandbox;
  const rows = [
    ['token service', `${url}  (POST /auth/v1/token, GET /echo)`],
    ['portal', portalLinkOf(sandbox)],
    ['owners', `${accessKeys.length}; access keys are in the portal`],
    ['credentials', 'in the portal, or with --print-env and --json'],
  ];
  const table = rows.map(([name, value]) => `${name?.padEnd(16)}${value}\n`).join('');
  return `${table}\nRequest a token:\n  ${curlOf(sandbox)}\n\nPress Ctrl-C to stop.\n`;
}

function curlOf({ url, clientId, clientSecret, accessKeys }: Sandbox): string {
  const request = {
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: clientSecret,
    appliance_owner_scope: accessKeys[0] ?? '<ACCESS_KEY>',
  };
  return `curl ${url}/auth/v1/token -H 'content-type: application/json' -d '${JSON.stringify(request)}'`;
}

/** A command that an integration is started with. */
export function clientCommandOf({ url, clientId, clientSecret, accessKeys }: Sandbox): string {
  const settings = `OTR_BASE_URL=${url} OTR_CLIENT_ID=${clientId} OTR_CLIENT_SECRET=${clientSecret}`;
  return `${settings} OTR_ACCESS_KEY=${accessKeys[0] ?? '<ACCESS_KEY>'} node your-integration.js`;
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
