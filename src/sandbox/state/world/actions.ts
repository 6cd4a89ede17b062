/**
 * The actions on a running sandbox; code and control plane call the same functions. Each reports what it changed. An
 * unknown name is a `NotFound`, any other mistake a `BadRequest`.
 */

import type * as v from 'valibot';
import { type AccessKey, MAX_OWNERS, type Owner } from './directory.ts';
import { BadRequest, NotFound } from './problems.ts';
import { changedProfile, type ProfileChanges } from './profile.ts';
import { between, boolean, integer, maybe, object, text } from './schema.ts';
import type { IssuedToken } from './tokens.ts';
import type { World } from './world.ts';

const NAME = maybe(text(/^.{0,100}$/s, 'up to 100 characters'));

/** Inputs of the actions, the same from code and from the control plane. */
export const NEW_OWNER = object({ id: maybe(text(/^[\w-]{1,40}$/, 'up to 40 letters, digits, - and _')), name: NAME });
export const OWNER_CHANGES = object({ name: NAME, enabled: maybe(boolean) });
export const ENABLED_CHANGE = object({ enabled: boolean });
export const ROTATION = object({ overlapMs: maybe(between(0, Number.MAX_VALUE, '0 or more milliseconds')) });
export const SEED = object({ owners: integer(0, MAX_OWNERS) });
export const CLOCK_CHANGES = object({
  advanceMs: maybe(between(0, 366 * 86_400_000, 'milliseconds, from 0 to a year')),
  frozen: maybe(boolean),
});

export function ownerOf(world: World, id: string): Owner {
  return found(world.directory.owners.get(id), `owner ${printable(id)}`);
}

export function accessKeyOf(world: World, id: string): AccessKey {
  return found(world.directory.accessKeys.get(id), `access key ${printable(id)}`);
}

/** Each owner's access key: the newest unrevoked one, else the newest. */
export function currentKeys(world: World): Map<string, AccessKey> {
  const current = new Map<string, AccessKey>();
  for (const key of world.directory.accessKeys.values()) {
    const before = current.get(key.ownerId);
    if (!key.revoked || !before || before.revoked) current.set(key.ownerId, key);
  }
  return current;
}

export function currentKey(world: World, ownerId: string): AccessKey | undefined {
  return currentKeys(world).get(ownerId);
}

/** Adds an owner with an access key. */
export function addOwner(world: World, given: v.InferOutput<typeof NEW_OWNER>): Owner {
  checkNew(given.id, world.directory.owners, MAX_OWNERS);
  const owner = world.directory.addOwner(given);
  world.directory.addAccessKey(owner.id);
  world.changed('owners');
  return owner;
}

export function addAccessKey(world: World, ownerId: string): AccessKey {
  const owner = ownerOf(world, ownerId);
  checkNew(undefined, world.directory.accessKeys, 100_000);
  const key = world.directory.addAccessKey(owner.id);
  world.changed('owners');
  return key;
}

export function enableClient(world: World, enabled: boolean): void {
  world.directory.client.enabled = enabled;
  world.changed('client');
}

export function changeOwner(world: World, id: string, changes: v.InferOutput<typeof OWNER_CHANGES>): Owner {
  const owner = ownerOf(world, id);
  Object.assign(owner, changes);
  world.changed('owners');
  return owner;
}

export function enableAccessKey(world: World, id: string, enabled: boolean): AccessKey {
  const key = accessKeyOf(world, id);
  key.enabled = enabled;
  world.changed('owners');
  return key;
}

/** Revokes an access key permanently, and its tokens if the profile says so. */
export function revokeAccessKey(world: World, key: AccessKey): void {
  key.revoked = true;
  if (world.profile.revokedKeyEndsTokens) {
    world.tokens.revokeWhere((token) => token.accessKey === key, world.clock.now());
  }
  world.changed('owners');
}

/** Revokes one token, those of an owner, or all, and returns how many of them were live. */
export function revokeTokens(world: World, which: { fingerprint?: string; owner?: string; all?: boolean }): number {
  const { fingerprint, owner, all } = which;
  const given = [fingerprint !== undefined, owner !== undefined, all === true].filter(Boolean);
  if (given.length !== 1) throw new BadRequest('expected exactly one of fingerprint, owner, or all: true');
  if (owner !== undefined) ownerOf(world, owner);
  const matches = (token: IssuedToken) =>
    all === true || token.fingerprint === fingerprint || token.accessKey.ownerId === owner;
  return world.tokens.revokeWhere(matches, world.clock.now());
}

/** Advances the clock first, then freezes or resumes it. */
export function changeClock(world: World, { advanceMs = 0, frozen }: v.InferOutput<typeof CLOCK_CHANGES>): void {
  world.clock.advance(advanceMs);
  if (frozen === true) world.clock.freeze();
  if (frozen === false) world.clock.resume();
}

/** Gives the client a new secret. The old ones end after the overlap; without one, at once. */
export function rotateSecret(world: World, overlapMs = 0): string {
  const secret = world.directory.rotateSecret(world.clock.now(), overlapMs);
  world.changed('client');
  return secret;
}

export function changeProfile(world: World, changes: ProfileChanges): void {
  world.profile = changedProfile(world.profile, changes);
  world.changed('profile');
}

/** Creates owners until there are this many. */
export function seedOwners(world: World, owners: number): void {
  world.directory.seed(owners);
  world.changed('owners');
}

/** Removes owners with their access keys and tokens. */
export function removeOwners(world: World, ids: readonly string[]): void {
  const removed = new Set(ids);
  world.tokens.revokeWhere(({ accessKey }) => removed.has(accessKey.ownerId), world.clock.now());
  for (const id of ids) world.directory.removeOwner(id);
  world.changed('owners');
}

/** Restores the state from the start, with the clock running. Time and request ids continue. End the scenario first. */
export function reset(world: World): void {
  world.faults.clear();
  world.tokens.clear();
  world.directory.clear();
  world.directory.seed(world.start.owners);
  world.profile = structuredClone(world.start.profile);
  world.ledger.clear();
  world.verdicts.clear();
  world.clock.resume();
  world.history.clear();
  world.changed('all');
}

function found<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new NotFound(`there is no ${what}`);
  return value;
}

function checkNew(id: string | undefined, taken: ReadonlyMap<string, unknown>, most: number): void {
  if (taken.size >= most) throw new BadRequest(`the limit of ${most} is reached`);
  if (id !== undefined && taken.has(id)) throw new BadRequest(`id: ${id} exists already`);
}

/** Error messages repeat an id, unless it may be a secret given by mistake. */
const printable = (id: string): string => (/^[\w-]{1,40}$/.test(id) && !id.startsWith('sbx_') ? id : '(no id)');
