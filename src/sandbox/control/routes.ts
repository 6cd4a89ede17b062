import type { OwnerView } from '../api-types.ts';
import * as actions from '../state/actions.ts';
import { factsOf } from '../state/facts.ts';
import { KINDS, type LedgerFilter, OUTCOMES } from '../state/ledger-entry.ts';
import { BadRequest, NotFound } from '../state/problems.ts';
import { finishScenario, startScenario } from '../state/scenario-run.ts';
import { SCENARIOS } from '../state/scenarios.ts';
import type { World } from '../state/world.ts';
import type { ControlContext } from './context.ts';
import { type OperationId, openapiDocument } from './openapi.ts';
import type { AnswerOf, RequestOf } from './operation-types.ts';
import { previewOf } from './preview.ts';
import { credentialsView, pictureView, stateView } from './state-view.ts';
import { tryOnce } from './try-once.ts';
import { appView, appViews, clockView, ownerViews } from './views.ts';

/** The result of a route is sent as JSON, with status 200 unless it is a `Status`. */
export class Status<Body = unknown> {
  readonly status: number;
  readonly body: Body;

  constructor(status: number, body: Body) {
    this.status = status;
    this.body = body;
  }
}

type Answer<Id extends OperationId> = AnswerOf<Id> | Status<AnswerOf<Id>>;

/** A request as it arrived, after the check against its description. */
interface CheckedRequest {
  readonly path: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string | number | boolean>>;
  readonly body: unknown;
}

/** Runs an operation. The check has made the request what the operation's type says. */
export function runRoute(id: keyof typeof ROUTES, context: ControlContext, request: CheckedRequest): unknown {
  return (ROUTES[id] as (context: ControlContext, request: object) => unknown)(context, request);
}

/** Every operation except the event stream. */
export const ROUTES: {
  [Id in Exclude<OperationId, 'GET /api/events'>]: (
    context: ControlContext,
    request: RequestOf<Id>,
  ) => Answer<Id> | Promise<Answer<Id>>;
} = {
  'GET /livez': () => ({ status: 'ok' }),
  'GET /readyz': ({ tokenPlaneListens }) =>
    tokenPlaneListens() ? { status: 'ok' } : new Status(503, { status: 'token plane closed' }),
  'GET /openapi.json': () => openapiDocument(),
  'GET /api/state': (context, { query }) => stateView(context, query),
  'GET /api/picture': ({ world }, { query }) => pictureView(world, query),
  'GET /api/facts': ({ world }) => factsOf(world.profile),

  'GET /api/requests': ({ world }, { query }) => {
    const { limit = 1000, ...filter } = query;
    return world.ledger.entries(filterOf(filter)).slice(-Math.max(1, limit));
  },
  'DELETE /api/requests': ({ world }) => {
    world.ledger.clear();
    world.changed('all');
    return world.ledger.summary();
  },
  'GET /api/requests/{id}': ({ world }, { path }) => {
    const entry = world.ledger.find(Number(path.id));
    if (!entry) throw new NotFound('this request is unknown or no longer kept');
    return entry;
  },

  'GET /api/apps': ({ world }) => appViews(world),
  'POST /api/apps': ({ world }, { body }) => appView(actions.addApp(world, body), world.secrets),
  'PATCH /api/apps/{id}': ({ world }, { path, body }) =>
    appView(actions.changeApp(world, path.id, body), world.secrets),
  'POST /api/apps/{id}/rotate': ({ world }, { path, body }) => {
    const app = actions.appOf(world, path.id);
    actions.rotateSecret(world, app, body.overlapMs);
    return appView(app, world.secrets);
  },

  'GET /api/owners': ({ world }, { query }) => {
    const found = world.directory.search(query.search ?? '');
    return ownerViews(world, found.slice(0, Math.max(1, query.limit ?? found.length)));
  },
  'GET /api/owners/{id}': ({ world }, { path }) => viewOf(world, path.id),
  'POST /api/owners': ({ world }, { body }) => viewOf(world, actions.addOwner(world, body).id),
  'PATCH /api/owners/{id}': ({ world }, { path, body }) => viewOf(world, actions.changeOwner(world, path.id, body).id),
  'POST /api/owners/{id}/keys': ({ world }, { path, body }) =>
    viewOf(world, actions.addAccessKey(world, path.id, body.app).ownerId),
  'PATCH /api/keys/{id}': ({ world }, { path, body }) =>
    viewOf(world, actions.enableAccessKey(world, path.id, body.enabled).ownerId),
  'POST /api/keys/{id}/revoke': ({ world }, { path }) => {
    const key = actions.accessKeyOf(world, path.id);
    actions.revokeAccessKey(world, key);
    return viewOf(world, key.ownerId);
  },
  'GET /api/credentials': (context, { query }) => credentialsView(context, query.owner, query.app),
  'POST /api/tokens/revoke': ({ world }, { body }) => ({ revoked: actions.revokeTokens(world, body) }),

  'GET /api/faults': ({ world }) => world.faults.list(),
  'POST /api/faults': ({ world }, { body }) => {
    const id = world.faults.add(body);
    return only(world.faults.list().find((rule) => rule.id === id));
  },
  'DELETE /api/faults': ({ world }) => {
    world.faults.clear();
    return world.faults.list();
  },
  'DELETE /api/faults/{id}': ({ world }, { path }) => {
    if (!world.faults.list().some((rule) => rule.id === path.id)) throw new NotFound('there is no such fault');
    world.faults.remove(path.id);
    return world.faults.list();
  },

  'GET /api/profile': ({ world }) => world.profile,
  'PATCH /api/profile': ({ world }, { body }) => {
    actions.changeProfile(world, body);
    return world.profile;
  },

  'GET /api/clock': ({ world }) => clockView(world),
  'POST /api/clock': ({ world }, { body }) => {
    actions.changeClock(world, body);
    return clockView(world);
  },

  'GET /api/scenarios': ({ world }) =>
    SCENARIOS.map((scenario) => {
      const verdict = world.verdicts.get(scenario.name);
      return { ...scenario, ...(verdict && { verdict }) };
    }),
  'POST /api/scenarios/{name}/run': ({ world }, { path, body }) => startScenario(world, path.name, body).verdict,
  'POST /api/scenarios/{name}': ({ world }, { path, body }) => startScenario(world, path.name, body).run,
  'DELETE /api/scenarios': ({ world }) => ({ ended: finishScenario(world, 'it was stopped') }),

  'POST /api/preview': ({ world }, { body }) => previewOf(world, body),
  'POST /api/try': (context, { body }) => tryOnce(credentialsView(context, body.owner, body.app)),
  'POST /api/seed': ({ world }, { body }) => {
    actions.seedOwners(world, body.owners);
    return { owners: world.directory.owners.size };
  },
  'POST /api/reset': (context) => {
    finishScenario(context.world, 'the sandbox was reset');
    actions.reset(context.world);
    return stateView(context);
  },
};

/** An unknown kind or outcome would match nothing, which looks like a valid answer. */
function filterOf({ kind, outcome, ...rest }: RequestOf<'GET /api/requests'>['query']): LedgerFilter {
  return {
    ...rest,
    ...(kind !== undefined && { kind: oneOf('kind', KINDS, kind) }),
    ...(outcome !== undefined && { outcome: oneOf('outcome', OUTCOMES, outcome) }),
  };
}

function oneOf<Value extends string>(name: string, values: readonly Value[], given: string): Value {
  const found = values.find((value) => value === given);
  if (found === undefined) throw new BadRequest(`${name}: one of ${values.join(', ')}`);
  return found;
}

function viewOf(world: World, ownerId: string): OwnerView {
  return only(ownerViews(world, [actions.ownerOf(world, ownerId)])[0]);
}

function only<Value>(found: Value | undefined): Value {
  if (found === undefined) throw new NotFound('it was removed meanwhile');
  return found;
}
