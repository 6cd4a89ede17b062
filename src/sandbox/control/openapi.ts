/**
 * The control plane's interface, described once: the server routes and checks by it, and `/openapi.json` is made of it.
 * A test holds the two against each other over HTTP, both ways.
 */

/** What a body's member or a query parameter must be; with `?` it may be left out. */
export type ValueType = 'string' | 'number' | 'boolean' | 'string?' | 'number?' | 'boolean?';

export interface Operation {
  readonly summary: string;
  /** Members of the JSON body, nothing else being accepted; `'checked'`: an object that the action itself checks. */
  readonly body?: Readonly<Record<string, ValueType>> | 'checked';
  readonly query?: Readonly<Record<string, ValueType>>;
  /** The type of the answer in events.ts. */
  readonly gives: string;
  /** Its answers hold secrets. */
  readonly secret?: true;
}

const NAMED = { id: 'string?', name: 'string?' } as const;
const CHANGED = { name: 'string?', enabled: 'boolean?' } as const;

export const OPERATIONS = {
  'GET /livez': { summary: 'The process is up.', gives: 'Health' },
  'GET /readyz': {
    summary: 'Ready to be used: 503 while a fault keeps the port of the token plane closed.',
    gives: 'Health',
  },
  'GET /openapi.json': { summary: 'This document.', gives: 'OpenAPI 3.1' },
  'GET /api/state': { summary: 'Everything that a page begins with.', gives: 'StateView' },
  'GET /api/events': {
    summary: 'Server-sent events named `update`, replayed from the header Last-Event-ID or from lastEventId.',
    query: { lastEventId: 'string?' },
    gives: 'UpdateFrame',
  },
  'GET /api/facts': { summary: 'What is documented and what is assumed.', gives: 'Fact[]' },
  'GET /api/requests': {
    summary: 'The last requests, oldest first: at most 1,000 unless `limit` says otherwise.',
    query: { kind: 'string?', owner: 'string?', outcome: 'string?', wasted: 'boolean?', limit: 'number?' },
    gives: 'LedgerEntry[]',
  },
  'DELETE /api/requests': { summary: 'Empties the ledger.', gives: 'LedgerSummary' },
  'GET /api/requests/{id}': { summary: 'One request.', gives: 'LedgerEntry' },
  'GET /api/apps': { summary: 'All apps.', gives: 'AppView[]' },
  'POST /api/apps': { summary: 'Adds an app.', body: NAMED, gives: 'AppView' },
  'PATCH /api/apps/{id}': { summary: 'Renames, enables or disables an app.', body: CHANGED, gives: 'AppView' },
  'POST /api/apps/{id}/rotate': {
    summary: 'Gives an app a new client secret; the old one ends after the overlap, at once without one.',
    body: { overlapMs: 'number?' },
    gives: 'AppView',
  },
  'GET /api/owners': { summary: 'All owners with their access keys.', gives: 'OwnerView[]' },
  'POST /api/owners': {
    summary: 'Adds an owner, with an access key for an app (the first).',
    body: { ...NAMED, app: 'string?' },
    gives: 'OwnerView',
  },
  'PATCH /api/owners/{id}': { summary: 'Renames, enables or disables an owner.', body: CHANGED, gives: 'OwnerView' },
  'POST /api/owners/{id}/keys': {
    summary: 'Gives an owner a further access key, for an app (the first).',
    body: { app: 'string?' },
    gives: 'OwnerView',
  },
  'PATCH /api/keys/{id}': {
    summary: 'Enables or disables an access key.',
    body: { enabled: 'boolean' },
    gives: 'OwnerView',
  },
  'POST /api/keys/{id}/revoke': { summary: 'Ends an access key for good.', body: {}, gives: 'OwnerView' },
  'GET /api/credentials': {
    summary: 'What an integration is configured with, for one owner (the first) and app (the first).',
    query: { owner: 'string?', app: 'string?' },
    gives: 'CredentialsView',
    secret: true,
  },
  'POST /api/tokens/revoke': {
    summary: 'Ends the token of a fingerprint, those of an owner, or all: exactly one of the three.',
    body: { fingerprint: 'string?', owner: 'string?', all: 'boolean?' },
    gives: '{ revoked: number }',
  },
  'GET /api/faults': { summary: 'The fault rules.', gives: 'ActiveFault[]' },
  'POST /api/faults': {
    summary: 'Adds a fault rule: FaultRule of fault-rules.ts.',
    body: 'checked',
    gives: 'ActiveFault',
  },
  'DELETE /api/faults': { summary: 'Removes every fault rule.', gives: 'ActiveFault[]' },
  'DELETE /api/faults/{id}': { summary: 'Removes one fault rule.', gives: 'ActiveFault[]' },
  'GET /api/profile': { summary: 'The settings for what is not documented.', gives: 'Profile' },
  'PATCH /api/profile': {
    summary: 'Changes some of them: ProfileChanges of profile.ts.',
    body: 'checked',
    gives: 'Profile',
  },
  'GET /api/clock': { summary: 'The time here.', gives: 'ClockView' },
  'POST /api/clock': {
    summary: 'Advances time, and freezes it or lets it run.',
    body: { advanceMs: 'number?', frozen: 'boolean?' },
    gives: 'ClockView',
  },
  'GET /api/scenarios': { summary: 'What can be run.', gives: 'ScenarioView[]' },
  'POST /api/scenarios/{name}': { summary: 'Starts a scenario.', body: { owner: 'string?' }, gives: 'ScenarioRun' },
  'POST /api/scenarios/{name}/run': {
    summary: 'Runs a scenario to its end, for 30 to 60 seconds, and answers with its verdict.',
    body: { owner: 'string?' },
    gives: 'ScenarioVerdict',
  },
  'DELETE /api/scenarios': { summary: 'Ends the scenario that runs, and its faults.', gives: '{ ended: boolean }' },
  'POST /api/try': {
    summary: 'Sends one token request and one call of /echo over the token plane.',
    body: { owner: 'string?' },
    gives: 'TryView',
  },
  'POST /api/seed': {
    summary: 'Makes sure that so many owners exist.',
    body: { owners: 'number' },
    gives: '{ owners: number }',
  },
  'POST /api/reset': { summary: 'Back to how it started.', body: {}, gives: 'StateView' },
} as const satisfies Record<string, Operation>;

export type OperationId = keyof typeof OPERATIONS;

export function openapiDocument(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const [id, operation] of Object.entries<Operation>(OPERATIONS)) {
    const [method = '', path = ''] = id.split(' ');
    const item = paths[path] ?? {};
    item[method.toLowerCase()] = operationObject(path, operation);
    paths[path] = item;
  }
  const title = 'owner-token-registry sandbox: control plane';
  return { openapi: '3.1.0', info: { title, version: '1' }, paths };
}

function operationObject(path: string, { summary, body, query, gives, secret }: Operation): object {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
    return { name, in: 'path', required: true, schema: { type: 'string' } };
  });
  const inQuery = Object.entries(query ?? {}).map(([name, type]) => ({ name, in: 'query', schema: schemaOf(type) }));
  return {
    summary,
    ...(secret && { description: 'The answer holds secrets.' }),
    parameters: [...inPath, ...inQuery],
    ...(body && { requestBody: { required: true, content: { 'application/json': { schema: bodySchema(body) } } } }),
    responses: {
      default: { description: 'ControlError, with a 4xx status.' },
      200: { description: gives },
    },
  };
}

function bodySchema(body: NonNullable<Operation['body']>): object {
  if (body === 'checked') return { type: 'object' };
  const properties = Object.fromEntries(Object.entries(body).map(([name, type]) => [name, schemaOf(type)]));
  const required = Object.keys(body).filter((name) => !body[name]?.endsWith('?'));
  return { type: 'object', properties, required, additionalProperties: false };
}

const schemaOf = (type: ValueType): object => ({ type: type.replace('?', '') });
