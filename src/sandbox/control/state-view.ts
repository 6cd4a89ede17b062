import type * as v from 'valibot';
import { groupedBy } from '../state/ledger/grouped-by.ts';
import { hasFailed, pictureMark } from '../state/ledger/marks.ts';
import { currentKey, ownerOf } from '../state/world/actions.ts';
import { NotFound } from '../state/world/problems.ts';
import { maybe, number, object, string } from '../state/world/schema.ts';
import type { World } from '../state/world/world.ts';
import type { ControlContext } from './context.ts';
import { environmentOf } from './environment.ts';
import type { CredentialsView, LaneView, LedgerEntry, PictureView, StateView } from './shapes.ts';
import { clientView, clockView, figuresView, tokenView } from './views.ts';

const MAX_DRAWN = 500;
const MAX_OTHERS = 200;
const MAX_LANES = 250;
const MAX_LANE_REQUESTS = 300;
const MAX_LANE_TOKENS = 60;
const DEFAULT_WINDOW_MS = 60_000;
const MAX_WINDOW_MS = 4 * 3_600_000;

/** Selects the window and the lanes. */
export const PICTURE_QUERY = object({
  windowMs: maybe(number),
  /** The end of the window, by default now. */
  untilMs: maybe(number),
  /** Part of an owner's id or name. */
  search: maybe(string),
  /** One owner's id. */
  owner: maybe(string),
  limit: maybe(number),
  /** Ids of requests, with commas between them. */
  requests: maybe(string),
});

type PictureQuery = v.InferOutput<typeof PICTURE_QUERY>;

/** The state of the sandbox as a page shows it. */
export function stateView(context: ControlContext, query: PictureQuery = {}): StateView {
  const { world, url } = context;
  return {
    url,
    env: environmentOf(context, undefined, () => '•'.repeat(16)),
    clock: clockView(world),
    figures: figuresView(world),
    requests: lastRequests(world),
    picture: pictureView(world, query),
    recent: recentSeconds(world, query),
    ownersVersion: world.ownersVersion,
    faults: world.faults.list(),
    profile: world.profile,
    client: clientView(world),
    ...(world.scenario && { scenario: world.scenario.run }),
  };
}

function recentSeconds({ ledger, clock }: World, { windowMs = 0, untilMs }: PictureQuery) {
  const spanMs = Math.min(MAX_WINDOW_MS, Math.max(DEFAULT_WINDOW_MS, untilMs === undefined ? windowMs : 0));
  return ledger.timeline.since(clock.now() - spanMs);
}

function lastRequests(world: World): LedgerEntry[] {
  const byId = new Map<number, LedgerEntry>();
  for (const entry of world.ledger.entries().slice(-MAX_OTHERS)) byId.set(entry.id, entry);
  let drawn = 0;
  for (const entry of world.ledger.drawn()) {
    if (drawn++ === MAX_DRAWN) break;
    byId.set(entry.id, entry);
  }
  return [...byId.values()].sort((a, b) => a.id - b.id);
}

/** The lanes and the time rail of a window. */
function pictureView(world: World, query: PictureQuery): PictureView {
  const windowMs = Math.min(MAX_WINDOW_MS, Math.max(1000, query.windowMs ?? DEFAULT_WINDOW_MS));
  const nowMs = world.clock.now();
  const untilMs = query.untilMs ?? nowMs;
  const fromMs = untilMs - windowMs;
  const byOwner = requestsByOwner(world, fromMs, untilMs);
  const ids = matchingOwners(world, query);
  const limit = Math.min(MAX_LANES, Math.max(1, query.limit ?? MAX_LANES));
  const shown = ids.length > limit ? worstFirst(world, ids, byOwner).slice(0, limit) : ids;
  if (query.owner === undefined && byOwner.has('')) shown.push('');
  const inWindow = [...world.tokens.endingAfter(fromMs)].filter(({ issuedAtMs }) => issuedAtMs <= untilMs);
  const tokens = groupedBy(inWindow, ({ accessKey }) => accessKey.ownerId);
  const lanes = shown.map((id): LaneView => {
    const name = world.directory.owners.get(id)?.name ?? '';
    const newestFirst = (byOwner.get(id) ?? []).slice(0, MAX_LANE_REQUESTS);
    const marks = newestFirst.reverse().map(pictureMark);
    return { id, name, tokens: (tokens.get(id) ?? []).slice(-MAX_LANE_TOKENS).map(tokenView), marks };
  });
  const seconds = world.ledger.timeline.since(fromMs).filter(([second]) => second * 1000 <= untilMs);
  const bands = world.history.since(fromMs).filter((band) => band.fromMs <= untilMs);
  const requests = query.untilMs === undefined ? undefined : requestsOf(world, query.requests, [...byOwner.values()]);
  return { windowMs, lanes, matching: ids.length, seconds, bands, ...(requests && { requests }) };
}

/** The requests that are named, or else the last ones of a window. */
function requestsOf({ ledger }: World, named: string | undefined, ofOwners: LedgerEntry[][]): LedgerEntry[] {
  const found = named?.split(',').flatMap((id) => ledger.find(Number(id)) ?? []) ?? ofOwners.flat();
  return found.sort((a, b) => a.id - b.id).slice(-MAX_DRAWN);
}

function matchingOwners({ directory }: World, { search = '', owner }: PictureQuery): string[] {
  if (owner !== undefined) return directory.owners.has(owner) ? [owner] : [];
  return directory.search(search).map(({ id }) => id);
}

/** The requests that began in the window, newest first. */
function requestsByOwner(world: World, fromMs: number, untilMs: number): Map<string, LedgerEntry[]> {
  // Calls to /echo are kept when they fail, which may be long after they began: the order is not exact.
  const inWindow = [...world.ledger.drawn()].filter(({ atMs }) => atMs >= fromMs && atMs <= untilMs);
  return groupedBy(inWindow, ({ owner = '' }) => owner);
}

/** Failures in the window weigh most, then wasted requests, then a missing token, then any request at all. */
function worstFirst(world: World, ids: readonly string[], requests: ReadonlyMap<string, LedgerEntry[]>): string[] {
  const covered = world.tokens.coveredOwners(world.clock.now());
  const weight = (id: string): number => {
    const own = requests.get(id) ?? [];
    const failures = own.filter(hasFailed).length;
    const wasted = own.filter((entry) => entry.wasted).length;
    return failures * 1000 + wasted * 100 + (own.length > 0 ? (covered.has(id) ? 1 : 50) : 0);
  };
  const weighed = ids.map((id, index) => ({ id, index, weight: weight(id) }));
  return weighed.sort((a, b) => b.weight - a.weight || a.index - b.index).map(({ id }) => id);
}

/** The settings of an integration for one owner, by default the first. Holds secrets. */
export function credentialsView(context: ControlContext, ownerId?: string): CredentialsView {
  const { world, url } = context;
  const [firstOwner] = world.directory.owners.keys();
  const owner = ownerOf(world, ownerId ?? firstOwner ?? '');
  const key = currentKey(world, owner.id);
  if (!key) throw new NotFound('this owner has no access key');
  const { clientId, secrets } = world.directory.client;
  return {
    baseUrl: url,
    clientId,
    clientSecret: secrets[0]?.value ?? '',
    owner: owner.id,
    accessKey: key.value,
    env: environmentOf(context, key.value),
  };
}
