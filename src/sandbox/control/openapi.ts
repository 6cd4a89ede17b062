/**
 * The control plane's interface, described once: routing, validation and `/openapi.json` derive from it. A test compares
 * the document with the server in both directions.
 */

import { refTo, SCHEMAS, type Schema } from './schemas.ts';

/** The type of a body member or query parameter; `?`: optional. */
export type ValueType = 'string' | 'number' | 'boolean' | 'string?' | 'number?' | 'boolean?' | 'object?';

export interface Operation {
  /** The name of a generated client's function. */
  readonly operationId: string;
  readonly summary: string;
  /** Members of the JSON body; others are refused. Or a schema's name, if the action itself validates the body. */
  readonly body?: Readonly<Record<string, ValueType>> | 'FaultRule' | 'ProfileChanges';
  readonly query?: Readonly<Record<string, ValueType>>;
  /** The schema of the answer in schemas.ts, or an array of it. */
  readonly gives: string;
  /** The answer holds secrets. */
  readonly secret?: true;
}

const NAMED = { id: 'string?', name: 'string?' } as const;
const PICTURE = {
  windowMs: 'number?',
  untilMs: 'number?',
  search: 'string?',
  owner: 'string?',
  limit: 'number?',
  requests: 'string?',
} as const;
const CHANGED = { name: 'string?', enabled: 'boolean?' } as const;

export const OPERATIONS = {
  'GET /livez': { operationId: 'getLiveness', summary: 'The process is up.', gives: 'Health' },
  'GET /readyz': {
    operationId: 'getReadiness',
    summary: 'Ready for requests: 503 while a fault keeps the port of the token plane closed.',
    gives: 'Health',
  },
  'GET /openapi.json': { operationId: 'getOpenApi', summary: 'This document.', gives: 'OpenApi' },
  'GET /api/state': {
    operationId: 'getState',
    summary: 'The initial state of a page.',
    query: PICTURE,
    gives: 'StateView',
  },
  'GET /api/events': {
    operationId: 'followEvents',
    summary: 'Server-sent events named `update`, replayed from the header Last-Event-ID or from lastEventId.',
    query: { lastEventId: 'string?' },
    gives: 'events',
  },
  'GET /api/picture': {
    operationId: 'getPicture',
    summary: 'Lanes and timeline of a window that ends now or at `untilMs`: all lanes, or the worst 250.',
    query: PICTURE,
    gives: 'PictureView',
  },
  'GET /api/facts': { operationId: 'listFacts', summary: 'What is documented and what is assumed.', gives: 'Fact[]' },
  'GET /api/requests': {
    operationId: 'listRequests',
    summary: 'The last requests, oldest first: at most 1,000 unless `limit` says otherwise.',
    query: { kind: 'string?', owner: 'string?', outcome: 'string?', wasted: 'boolean?', limit: 'number?' },
    gives: 'LedgerEntry[]',
  },
  'DELETE /api/requests': { operationId: 'clearRequests', summary: 'Empties the ledger.', gives: 'LedgerSummary' },
  'GET /api/requests/{id}': { operationId: 'getRequest', summary: 'One request.', gives: 'LedgerEntry' },
  'GET /api/apps': { operationId: 'listApps', summary: 'All apps.', gives: 'AppView[]' },
  'POST /api/apps': { operationId: 'addApp', summary: 'Adds an app.', body: NAMED, gives: 'AppView' },
  'PATCH /api/apps/{id}': {
    operationId: 'changeApp',
    summary: 'Renames, enables or disables an app.',
    body: CHANGED,
    gives: 'AppView',
  },
  'POST /api/apps/{id}/rotate': {
    operationId: 'rotateSecret',
    summary: 'Gives an app a new client secret. The old one stays valid for the overlap, which is 0 by default.',
    body: { overlapMs: 'number?' },
    gives: 'AppView',
  },
  'GET /api/owners': {
    operationId: 'listOwners',
    summary: 'Owners with their access keys: all, or those that match a search.',
    query: { search: 'string?', limit: 'number?' },
    gives: 'OwnerView[]',
  },
  'GET /api/owners/{id}': { operationId: 'getOwner', summary: 'One owner.', gives: 'OwnerView' },
  'POST /api/owners': {
    operationId: 'addOwner',
    summary: 'Adds an owner, with an access key for an app (default: the first).',
    body: { ...NAMED, app: 'string?' },
    gives: 'OwnerView',
  },
  'PATCH /api/owners/{id}': {
    operationId: 'changeOwner',
    summary: 'Renames, enables or disables an owner.',
    body: CHANGED,
    gives: 'OwnerView',
  },
  'POST /api/owners/{id}/keys': {
    operationId: 'addAccessKey',
    summary: 'Gives an owner another access key, for an app (default: the first).',
    body: { app: 'string?' },
    gives: 'OwnerView',
  },
  'PATCH /api/keys/{id}': {
    operationId: 'changeAccessKey',
    summary: 'Enables or disables an access key.',
    body: { enabled: 'boolean' },
    gives: 'OwnerView',
  },
  'POST /api/keys/{id}/revoke': {
    operationId: 'revokeAccessKey',
    summary: 'Revokes an access key permanently.',
    body: {},
    gives: 'OwnerView',
  },
  'GET /api/credentials': {
    operationId: 'getCredentials',
    summary: 'The settings of an integration, for one owner and one app (default: the first of each).',
    query: { owner: 'string?', app: 'string?' },
    gives: 'CredentialsView',
    secret: true,
  },
  'POST /api/tokens/revoke': {
    operationId: 'revokeTokens',
    summary:
      'Revokes the token with this fingerprint, all tokens of an owner, or all tokens: exactly one of the three.',
    body: { fingerprint: 'string?', owner: 'string?', all: 'boolean?' },
    gives: 'Revoked',
  },
  'GET /api/faults': { operationId: 'listFaults', summary: 'The fault rules.', gives: 'ActiveFault[]' },
  'POST /api/faults': {
    operationId: 'addFault',
    summary: 'Adds a fault rule.',
    body: 'FaultRule',
    gives: 'ActiveFault',
  },
  'DELETE /api/faults': { operationId: 'clearFaults', summary: 'Removes every fault rule.', gives: 'ActiveFault[]' },
  'DELETE /api/faults/{id}': { operationId: 'removeFault', summary: 'Removes one fault rule.', gives: 'ActiveFault[]' },
  'GET /api/profile': {
    operationId: 'getProfile',
    summary: 'The settings for undocumented behaviour.',
    gives: 'Profile',
  },
  'PATCH /api/profile': {
    operationId: 'changeProfile',
    summary: 'Changes some settings.',
    body: 'ProfileChanges',
    gives: 'Profile',
  },
  'GET /api/clock': { operationId: 'getClock', summary: 'The time of the sandbox.', gives: 'ClockView' },
  'POST /api/clock': {
    operationId: 'changeClock',
    summary: 'Advances the clock, and freezes or resumes it.',
    body: { advanceMs: 'number?', frozen: 'boolean?' },
    gives: 'ClockView',
  },
  'GET /api/scenarios': {
    operationId: 'listScenarios',
    summary: 'The scenarios, with the verdict of their last run.',
    gives: 'ScenarioView[]',
  },
  'POST /api/scenarios/{name}': {
    operationId: 'startScenario',
    summary: 'Starts a scenario.',
    body: { owner: 'string?' },
    gives: 'ScenarioRun',
  },
  'POST /api/scenarios/{name}/run': {
    operationId: 'runScenario',
    summary: 'Runs a scenario to its end, for 30 to 90 seconds, and answers with its verdict.',
    body: { owner: 'string?' },
    gives: 'ScenarioVerdict',
  },
  'DELETE /api/scenarios': {
    operationId: 'stopScenario',
    summary: 'Ends the running scenario and removes its fault.',
    gives: 'Ended',
  },
  'POST /api/preview': {
    operationId: 'previewAnswer',
    summary:
      'The answer that a token request would get now, if it were refused (`error`), or under a fault rule. Sends nothing.',
    body: { error: 'boolean?', fault: 'object?' },
    gives: 'PreviewView',
  },
  'POST /api/try': {
    operationId: 'tryOnce',
    summary: 'Sends one token request and one call to /echo over the token plane.',
    body: { owner: 'string?', app: 'string?' },
    gives: 'TryView',
  },
  'POST /api/seed': {
    operationId: 'createOwners',
    summary: 'Creates owners until there are this many.',
    body: { owners: 'number' },
    gives: 'Seeded',
  },
  'POST /api/reset': {
    operationId: 'reset',
    summary: 'Restores the state from the start.',
    body: {},
    gives: 'StateView',
  },
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
  return {
    openapi: '3.1.0',
    info: {
      title: 'owner-token-registry sandbox: control plane',
      version: '1',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    security: [{}, { controlToken: [] }],
    paths,
    components: {
      schemas: SCHEMAS,
      securitySchemes: {
        controlToken: { type: 'http', scheme: 'bearer', description: 'Required unless bound to loopback.' },
      },
    },
  };
}

function operationObject(path: string, operation: Operation): object {
  const { operationId, summary, body, query, gives, secret } = operation;
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
    return { name, in: 'path', required: true, schema: { type: 'string' } };
  });
  const inQuery = Object.entries(query ?? {}).map(([name, type]) => ({ name, in: 'query', schema: schemaOf(type) }));
  return {
    operationId,
    summary,
    ...(secret && { description: 'The answer holds secrets.' }),
    parameters: [...inPath, ...inQuery],
    ...(body && { requestBody: { required: true, content: json(bodySchema(body)) } }),
    responses: {
      200: { description: 'Done.', content: contentOf(gives) },
      ...(operationId === 'getReadiness' && { 503: { description: 'Not ready.', content: json(refTo('Health')) } }),
      '4XX': { description: 'The request was refused.', content: json(refTo('ControlError')) },
    },
  };
}

function contentOf(gives: string): object {
  if (gives === 'events') return { 'text/event-stream': { schema: { type: 'string' } } };
  return json(gives.endsWith('[]') ? { type: 'array', items: refTo(gives.slice(0, -2)) } : refTo(gives));
}

const json = (schema: Schema) => ({ 'application/json': { schema } });

function bodySchema(body: NonNullable<Operation['body']>): Schema {
  if (typeof body === 'string') return refTo(body);
  const properties = Object.fromEntries(Object.entries(body).map(([name, type]) => [name, schemaOf(type)]));
  const required = Object.keys(body).filter((name) => !body[name]?.endsWith('?'));
  return { type: 'object', properties, required, additionalProperties: false };
}

const schemaOf = (type: ValueType): Schema =>
  type === 'object?' ? refTo('FaultRule') : { type: type.replace('?', '') };
