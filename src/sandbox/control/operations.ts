import { finishScenario, startScenario } from '../state/judge/scenario-run.ts';
import { SCENARIOS } from '../state/judge/scenarios.ts';
import { FILTER } from '../state/ledger/ledger-entry.ts';
import * as actions from '../state/world/actions.ts';
import { factsOf } from '../state/world/facts.ts';
import { FAULT_RULE } from '../state/world/fault-rules.ts';
import { NotFound } from '../state/world/problems.ts';
import { PROFILE_CHANGES } from '../state/world/profile.ts';
import { boolean, maybe, number, object, string } from '../state/world/schema.ts';
import type { World } from '../state/world/world.ts';
import { type Operation, operation, Status, Stream } from './operation.ts';
import type { OwnerView } from './shapes.ts';
import { credentialsView, PICTURE_QUERY, stateView } from './state-view.ts';
import { tryOnce } from './try-once.ts';
import { clientView, clockView, ownerViews } from './views.ts';

const NOTHING = object({});
const OF_OWNER = object({ owner: maybe(string) });

/** What `/livez` says, by which the command line tells the portal from a token service. */
const SERVICE = 'owner-token-registry sandbox portal';

/** Every operation of the control plane. The table in docs/sandbox.md is made from them. */
export const OPERATIONS: readonly Operation[] = [
  operation('GET /livez', "Liveness. `service` identifies the sandbox's portal.", {}, () => ({
    status: 'ok',
    service: SERVICE,
  })),
  operation(
    'GET /readyz',
    "Readiness: 503 while a fault keeps the token plane's port closed.",
    {},
    ({ tokenPlaneListens }) =>
      tokenPlaneListens() ? { status: 'ok' } : new Status(503, { status: 'token plane closed' }),
  ),
  operation('GET /api/state', 'The state that the portal shows.', { query: PICTURE_QUERY }, (context, { query }) =>
    stateView(context, query),
  ),
  operation(
    'GET /api/events',
    'Server-sent events named `update`: the state, whenever it changes, at most four times a second. `picture.lanes` is omitted if unchanged.',
    { query: PICTURE_QUERY },
    (context, { query }) => new Stream(JSON.stringify(query), () => stateView(context, query)),
  ),
  operation('GET /api/facts', 'What is documented and what is assumed.', {}, ({ world }) => factsOf(world.profile)),

  operation(
    'GET /api/requests',
    'The last requests, oldest first: at most 1,000 unless `limit` says otherwise.',
    {
      query: object({ ...FILTER.entries, limit: maybe(number) }),
    },
    ({ world }, { query: { limit = 1000, ...filter } }) => world.ledger.entries(filter).slice(-Math.max(1, limit)),
  ),
  operation('DELETE /api/requests', 'Empties the ledger.', {}, ({ world }) => {
    world.ledger.clear();
    world.changed('all');
    return world.ledger.summary();
  }),
  operation('GET /api/requests/{id}', 'One request.', {}, ({ world }, { path }) =>
    found(world.ledger.find(Number(path.id)), 'this request is unknown or no longer kept'),
  ),

  operation(
    'PATCH /api/client',
    'Enables or disables the client.',
    { body: actions.ENABLED_CHANGE },
    ({ world }, { body }) => {
      actions.enableClient(world, body.enabled);
      return clientView(world);
    },
  ),
  operation(
    'POST /api/client/rotate',
    'Gives the client a new secret. The old one stays valid for the overlap, which is 0 by default.',
    { body: actions.ROTATION },
    ({ world }, { body }) => {
      actions.rotateSecret(world, body.overlapMs);
      return clientView(world);
    },
  ),

  operation(
    'GET /api/owners',
    'Owners with their access keys: all, or those that match a search.',
    { query: object({ search: maybe(string), limit: maybe(number) }) },
    ({ world }, { query }) => {
      const matching = world.directory.search(query.search ?? '');
      return ownerViews(world, matching.slice(0, Math.max(1, query.limit ?? matching.length)));
    },
  ),
  operation('GET /api/owners/{id}', 'One owner.', {}, ({ world }, { path }) => viewOf(world, path.id)),
  operation(
    'POST /api/owners',
    'Adds an owner, with an access key.',
    { body: actions.NEW_OWNER },
    ({ world }, { body }) => viewOf(world, actions.addOwner(world, body).id),
  ),
  operation(
    'PATCH /api/owners/{id}',
    'Renames, enables or disables an owner.',
    { body: actions.OWNER_CHANGES },
    ({ world }, { path, body }) => viewOf(world, actions.changeOwner(world, path.id, body).id),
  ),
  operation(
    'POST /api/owners/{id}/keys',
    'Gives an owner another access key.',
    { body: NOTHING },
    ({ world }, { path }) => viewOf(world, actions.addAccessKey(world, path.id).ownerId),
  ),
  operation(
    'PATCH /api/keys/{id}',
    'Enables or disables an access key.',
    { body: actions.ENABLED_CHANGE },
    ({ world }, { path, body }) => viewOf(world, actions.enableAccessKey(world, path.id, body.enabled).ownerId),
  ),
  operation(
    'POST /api/keys/{id}/revoke',
    'Revokes an access key permanently.',
    { body: NOTHING },
    ({ world }, { path }) => {
      const key = actions.accessKeyOf(world, path.id);
      actions.revokeAccessKey(world, key);
      return viewOf(world, key.ownerId);
    },
  ),
  operation(
    'GET /api/credentials',
    'The settings of an integration with its secrets, for one owner (default: the first).',
    { query: OF_OWNER },
    (context, { query }) => credentialsView(context, query.owner),
  ),
  operation(
    'POST /api/tokens/revoke',
    'Revokes the token with this fingerprint, all tokens of an owner, or all tokens: exactly one of the three.',
    {
      body: object({ fingerprint: maybe(string), owner: maybe(string), all: maybe(boolean) }),
    },
    ({ world }, { body }) => ({ revoked: actions.revokeTokens(world, body) }),
  ),

  operation('GET /api/faults', 'The fault rules.', {}, ({ world }) => world.faults.list()),
  operation('POST /api/faults', 'Adds a fault rule.', { body: FAULT_RULE }, ({ world }, { body }) => {
    const id = world.faults.add(body);
    return found(world.faults.list().find((rule) => rule.id === id));
  }),
  operation('DELETE /api/faults', 'Removes every fault rule.', {}, ({ world }) => {
    world.faults.clear();
    return world.faults.list();
  }),
  operation('DELETE /api/faults/{id}', 'Removes one fault rule.', {}, ({ world }, { path }) => {
    if (!world.faults.has(path.id)) throw new NotFound('there is no such fault');
    world.faults.remove(path.id);
    return world.faults.list();
  }),

  operation('GET /api/profile', 'The settings for undocumented behaviour.', {}, ({ world }) => world.profile),
  operation('PATCH /api/profile', 'Changes some settings.', { body: PROFILE_CHANGES }, ({ world }, { body }) => {
    actions.changeProfile(world, body);
    return world.profile;
  }),

  operation('GET /api/clock', 'The time of the sandbox.', {}, ({ world }) => clockView(world)),
  operation(
    'POST /api/clock',
    'Advances the clock, and freezes or resumes it.',
    { body: actions.CLOCK_CHANGES },
    ({ world }, { body }) => {
      actions.changeClock(world, body);
      return clockView(world);
    },
  ),

  operation('GET /api/scenarios', 'The scenarios, with the verdict of their last run.', {}, ({ world }) =>
    SCENARIOS.map((scenario) => {
      const verdict = world.verdicts.get(scenario.name);
      return { ...scenario, ...(verdict && { verdict }) };
    }),
  ),
  operation(
    'POST /api/scenarios/{name}',
    'Starts a scenario.',
    { body: OF_OWNER },
    ({ world }, { path, body }) => startScenario(world, path.name, body).run,
  ),
  operation(
    'POST /api/scenarios/{name}/run',
    'Runs a scenario to its end, for 30 to 90 seconds, and returns its verdict.',
    { body: OF_OWNER },
    ({ world }, { path, body }) => startScenario(world, path.name, body).verdict,
  ),
  operation('DELETE /api/scenarios', 'Ends the running scenario and removes its fault.', {}, ({ world }) => ({
    ended: finishScenario(world, 'it was stopped'),
  })),

  operation(
    'POST /api/try',
    'Sends one token request and one call to /echo over the token plane.',
    { body: OF_OWNER },
    (context, { body }) => tryOnce(credentialsView(context, body.owner)),
  ),
  operation(
    'POST /api/seed',
    'Creates owners until there are this many.',
    { body: actions.SEED },
    ({ world }, { body }) => {
      actions.seedOwners(world, body.owners);
      return { owners: world.directory.owners.size };
    },
  ),
  operation('POST /api/reset', 'Restores the initial state.', { body: NOTHING }, (context) => {
    finishScenario(context.world, 'the sandbox was reset');
    actions.reset(context.world);
    return stateView(context);
  }),
];

const viewOf = (world: World, ownerId: string): OwnerView =>
  found(ownerViews(world, [actions.ownerOf(world, ownerId)])[0]);

function found<Value>(value: Value | undefined, otherwise = 'it was removed meanwhile'): Value {
  if (value === undefined) throw new NotFound(otherwise);
  return value;
}
