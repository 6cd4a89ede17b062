/**
 * JSON schemas of the control plane's answers, for `/openapi.json`. A test validates every real answer against them. The
 * schemas of fault rules and profiles derive from the tables that check them.
 */

import { FAULT_KIND_NAMES, FAULT_KINDS, type FaultKind, type FaultMember, faultMembers } from '../state/fault-kinds.ts';
import { KINDS, OUTCOMES } from '../state/ledger-entry.ts';
import { PROFILE_VALUES } from '../state/profile.ts';

export type Schema = Readonly<Record<string, unknown>>;

const string = { type: 'string' } as const;
const number = { type: 'number' } as const;
const integer = { type: 'integer' } as const;
const boolean = { type: 'boolean' } as const;
const oneOf = (values: readonly (string | number)[]): Schema => ({
  type: typeof values[0] === 'number' ? 'integer' : 'string',
  enum: values,
});
const arrayOf = (items: Schema): Schema => ({ type: 'array', items });
export const refTo = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/** An object. A name that ends with `?` is optional. */
function object(members: Readonly<Record<string, Schema>>): Schema {
  const names = Object.keys(members);
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name.replace('?', ''), members[name]])),
    required: names.filter((name) => !name.endsWith('?')),
    additionalProperties: false,
  };
}

const TARGET = object({ 'path?': oneOf(['token', 'echo', 'all']), 'app?': string, 'owner?': string });

const WHEN: Schema = {
  oneOf: [
    object({ always: { type: 'boolean', const: true } }),
    object({ next: integer }),
    object({ over: integer, perMs: integer }),
    object({ schedule: arrayOf({ type: 'array', items: integer, minItems: 2, maxItems: 2 }), 'everyMs?': integer }),
    object({ probability: number, 'seed?': integer }),
  ],
};

function memberSchema(member: FaultMember): Schema {
  switch (member.type) {
    case 'integer':
      return { type: 'integer', minimum: member.min, maximum: member.max };
    case 'choice':
      return oneOf(member.values);
    case 'headerText':
      return string;
    case 'retryAfter':
      return { type: ['integer', 'string'] };
    case 'headers':
      return { type: 'object', additionalProperties: string };
    case 'body':
      return {};
  }
}

/** One schema per kind, discriminated by `kind`. `more`: further members. */
const faultSchema = (more: Readonly<Record<string, Schema>>): Schema => ({
  oneOf: FAULT_KIND_NAMES.map((kind) => ({
    ...object({ kind: { type: 'string', const: kind }, ...membersOf(kind), ...more }),
    description: FAULT_KINDS[kind].description,
  })),
});

const membersOf = (kind: FaultKind): Record<string, Schema> =>
  Object.fromEntries(
    faultMembers(kind).map(([name, member]) => [member.required ? name : `${name}?`, memberSchema(member)]),
  );

const ODD = object({ lifetimeAs: oneOf(PROFILE_VALUES.lifetimeAs), camelCase: boolean, wrapped: boolean });
const PROFILE = {
  shape: oneOf(PROFILE_VALUES.shape),
  tokenFormat: oneOf(PROFILE_VALUES.tokenFormat),
  lifetimeSeconds: number,
  revokePrevious: boolean,
  replicationLagMs: integer,
  errorForm: oneOf(PROFILE_VALUES.errorForm),
  revokedKey: oneOf(PROFILE_VALUES.revokedKey),
  revokedKeyEndsTokens: boolean,
};
const optional = (members: Readonly<Record<string, Schema>>): Record<string, Schema> =>
  Object.fromEntries(Object.entries(members).map(([name, schema]) => [`${name}?`, schema]));

const VERDICT = {
  verdict: oneOf(['passed', 'failed', 'not tested']),
  passed: boolean,
  'reason?': string,
  conditions: arrayOf(object({ condition: string, observed: string, met: boolean })),
  findings: arrayOf(
    object({
      ...{ expectation: string, observed: string, passed: boolean },
      ...{ 'requests?': arrayOf(integer), 'fromMs?': number, 'toMs?': number },
    }),
  ),
  startedAtMs: number,
  endedAtMs: number,
};

export const SCHEMAS: Readonly<Record<string, Schema>> = {
  Health: object({ status: string }),
  OpenApi: { type: 'object' },
  ControlError: object({ error: string, message: string }),
  ClockView: object({ nowMs: number, frozen: boolean }),
  FiguresView: object({
    ...{ total: integer, tokenRequests: integer, wasted: integer, inFlight: integer },
    ...{ owners: integer, ownersAsked: integer, ownersCovered: integer },
  }),
  LedgerSummary: object({
    ...{ total: integer, wasted: integer, ownersServed: integer },
    byOutcome: { type: 'object', additionalProperties: integer },
  }),
  LedgerEntry: object({
    ...{ id: integer, kind: oneOf(KINDS), atMs: number, 'durationMs?': number, method: string },
    ...{ 'app?': string, 'owner?': string, 'accessKey?': string, 'token?': string, 'tokenExpiresAtMs?': number },
    ...{ outcome: oneOf(OUTCOMES), 'status?': integer, 'error?': string, 'description?': string, 'field?': string },
    ...{ 'retryAfterSeconds?': integer, 'fault?': string, 'faultKind?': string, wasted: boolean },
  }),
  TokenView: object({
    ...{ fingerprint: string, owner: string, app: string },
    ...{ issuedAtMs: number, expiresAtMs: number, 'revokedAtMs?': number },
  }),
  LaneView: object({
    ...{ id: string, name: string },
    ...{ tokens: arrayOf(refTo('TokenView')), marks: arrayOf(arrayOf(number)) },
  }),
  Band: object({
    ...{ id: integer, kind: oneOf(['fault', 'scenario', 'frozen', 'jump']), 'name?': string },
    ...{ fromMs: number, 'toMs?': number },
  }),
  PictureView: object({
    ...{ windowMs: number, lanes: arrayOf(refTo('LaneView')), matching: integer },
    ...{
      seconds: arrayOf(arrayOf(integer)),
      bands: arrayOf(refTo('Band')),
      'requests?': arrayOf(refTo('LedgerEntry')),
    },
  }),
  AppView: object({
    ...{ id: string, name: string, enabled: boolean, clientId: string },
    secrets: arrayOf(object({ fingerprint: string, 'goodUntilMs?': number })),
  }),
  AccessKeyView: object({ id: string, app: string, fingerprint: string, enabled: boolean, revoked: boolean }),
  OwnerView: object({
    ...{ id: string, name: string, enabled: boolean, accessKeys: arrayOf(refTo('AccessKeyView')) },
    ...{ tokenRequests: integer, 'coveredUntilMs?': number },
  }),
  CredentialsView: object({
    baseUrl: string,
    clientId: string,
    clientSecret: string,
    owner: string,
    accessKey: string,
    env: string,
  }),
  FaultRule: faultSchema({ 'id?': string, 'target?': TARGET, 'when?': WHEN }),
  ActiveFault: faultSchema({
    ...{ id: string, target: TARGET, when: WHEN, addedAtMs: number, hits: integer, 'endsAtMs?': number },
    'left?': { oneOf: [object({ requests: integer }), object({ ms: number })] },
  }),
  Profile: object({ ...PROFILE, odd: ODD }),
  ProfileChanges: object({
    ...optional(PROFILE),
    'odd?': object(optional({ lifetimeAs: oneOf(PROFILE_VALUES.lifetimeAs), camelCase: boolean, wrapped: boolean })),
  }),
  Fact: object({ basis: oneOf(['documented', 'assumed']), statement: string, 'setting?': string }),
  ScenarioVerdict: object(VERDICT),
  ScenarioView: object({
    ...{ name: string, title: string, description: string, consequence: string, requires: string },
    ...{ durationMs: number, owners: integer },
    'verdict?': refTo('ScenarioVerdict'),
  }),
  ScenarioRun: object({
    name: string,
    startedAtMs: number,
    'endsAtMs?': number,
    verdictAtMs: number,
    'owner?': string,
  }),
  PreviewView: object({
    ...{ 'status?': integer, headers: { type: 'object', additionalProperties: string }, body: string, 'note?': string },
  }),
  TryView: object({
    ...{ 'status?': integer, 'socketError?': string, body: string, 'echoStatus?': integer, 'echoOwner?': string },
  }),
  Revoked: object({ revoked: integer }),
  Ended: object({ ended: boolean }),
  Seeded: object({ owners: integer }),
  StateView: object({
    ...{ url: string, lastEventId: string, clock: refTo('ClockView'), figures: refTo('FiguresView') },
    ...{
      requests: arrayOf(refTo('LedgerEntry')),
      picture: refTo('PictureView'),
      faults: arrayOf(refTo('ActiveFault')),
    },
    ...{ profile: refTo('Profile'), apps: arrayOf(refTo('AppView')), 'scenario?': refTo('ScenarioRun') },
  }),
};
