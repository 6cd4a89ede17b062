/**
 * The control plane's interface, described for machines. A test holds this against the server both ways: each path and
 * method here is answered, and each route of the server is here.
 */
export function openapiDocument(): object {
  return {
    openapi: '3.1.0',
    info: {
      title: 'owner-token-registry sandbox, control plane',
      version: '1',
      description: 'Loopback only unless told otherwise. Writes take and give JSON.',
    },
    paths: Object.fromEntries(pathItems()),
  };
}

/** Method, path, what it does, and the shape of what is sent; answers are described in events.ts. */
const OPERATIONS: readonly [string, string, string, object?][] = [
  ['get', '/livez', 'The process is up.'],
  ['get', '/readyz', 'Both planes are listening.'],
  ['get', '/openapi.json', 'This document.'],
  ['get', '/api/state', 'Everything a page begins with: StateView.'],
  ['get', '/api/events', 'Server-sent events: UpdateFrame, replayed from Last-Event-ID.'],
  ['get', '/api/requests', 'LedgerEntry list; query: kind, owner, outcome, wasted, limit.'],
  ['delete', '/api/requests', 'Empties the ledger.'],
  ['get', '/api/requests/{id}', 'One LedgerEntry.'],
  ['get', '/api/apps', 'AppView list.'],
  ['post', '/api/apps', 'A new app: AppView.', { id: 'string?', name: 'string?' }],
  [
    'patch',
    '/api/apps/{id}',
    'Renames, enables or disables an app: AppView.',
    { name: 'string?', enabled: 'boolean?' },
  ],
  ['post', '/api/apps/{id}/rotate', 'A new client secret: AppView.', { overlapMs: 'number?' }],
  ['get', '/api/owners', 'OwnerView list.'],
  [
    'post',
    '/api/owners',
    'A new owner, with an access key for an app: OwnerView.',
    { id: 'string?', name: 'string?', app: 'string?' },
  ],
  [
    'patch',
    '/api/owners/{id}',
    'Renames, enables or disables an owner: OwnerView.',
    { name: 'string?', enabled: 'boolean?' },
  ],
  ['post', '/api/owners/{id}/keys', 'A further access key: OwnerView.', { app: 'string?' }],
  ['patch', '/api/keys/{id}', 'Enables or disables an access key: OwnerView.', { enabled: 'boolean' }],
  ['post', '/api/keys/{id}/revoke', 'Revokes an access key for good: OwnerView.', {}],
  ['get', '/api/credentials', 'CredentialsView of an owner; query: owner. Secrets.'],
  [
    'post',
    '/api/tokens/revoke',
    'Revokes a token, or those of an owner, or all: { revoked }.',
    { fingerprint: 'string?', owner: 'string?', all: 'boolean?' },
  ],
  ['get', '/api/faults', 'ActiveFault list.'],
  ['post', '/api/faults', 'Adds a FaultRule: ActiveFault.', { kind: 'string' }],
  ['delete', '/api/faults', 'Removes every fault.'],
  ['delete', '/api/faults/{id}', 'Removes one fault.'],
  ['get', '/api/profile', 'Profile.'],
  ['patch', '/api/profile', 'Changes some of it: Profile.', {}],
  ['get', '/api/clock', 'ClockView.'],
  ['post', '/api/clock', 'Moves, freezes or resumes time: ClockView.', { advanceMs: 'number?', frozen: 'boolean?' }],
  ['get', '/api/scenarios', 'ScenarioView list.'],
  ['post', '/api/scenarios/{name}', 'Starts a scenario: ScenarioRun.', {}],
  ['delete', '/api/scenarios', 'Ends the running scenario and removes its faults.'],
  [
    'post',
    '/api/try',
    'Sends one token request and one call of /echo to the token plane: TryView.',
    { owner: 'string?' },
  ],
  ['post', '/api/seed', 'Makes sure that so many owners exist: { owners }.', { owners: 'number' }],
  ['post', '/api/reset', 'Back to how it started: StateView.', {}],
];

function pathItems(): [string, object][] {
  const items = new Map<string, Record<string, object>>();
  for (const [method, path, summary, body] of OPERATIONS) {
    const item = items.get(path) ?? {};
    item[method] = { summary, ...(body && { requestBody: { content: { 'application/json': { example: body } } } }) };
    items.set(path, item);
  }
  return [...items];
}
