/** What a state file holds, and its check: a sandbox that starts with a damaged file would fail at some later request. */

import * as v from 'valibot';
import { PROFILE_CHANGES } from './profile.ts';
import { between, boolean, checked, integer, maybe, number, object, text } from './schema.ts';

export const FORMAT = 1;

const NAME = text(/^.+$/s, 'a non-empty string');
const KEY = text(/^[\w-]{43}$/, '32 bytes in base64url');
const INSTANT = between(-8.64e15, 8.64e15, 'an instant');
const LABEL = { id: NAME, name: v.string(), enabled: boolean };

const STORED = object({
  format: v.literal(FORMAT),
  /** The seed it was made with. */
  seed: v.optional(number),
  /** Where the planes listened last, for a start that is to use the same ports. */
  ports: v.optional(object({ port: integer(0, 65_535), portalPort: integer(0, 65_535) })),
  secrets: object({ key: KEY, made: integer(0, Number.MAX_SAFE_INTEGER) }),
  /** How far the sandbox's clock is ahead of the machine's. */
  aheadMs: between(0, 8.64e15, 'milliseconds'),
  profile: PROFILE_CHANGES,
  apps: v.pipe(
    v.array(
      object({
        ...LABEL,
        clientId: NAME,
        secrets: v.pipe(v.array(object({ value: NAME, goodUntilMs: maybe(INSTANT) })), v.minLength(1)),
      }),
    ),
    v.minLength(1),
  ),
  owners: v.array(object(LABEL)),
  accessKeys: v.array(
    object({
      id: NAME,
      ownerId: NAME,
      appId: NAME,
      value: NAME,
      fingerprint: NAME,
      enabled: boolean,
      revoked: boolean,
    }),
  ),
  /** `accessKey`: the id of one. */
  tokens: v.array(
    object({
      value: NAME,
      accessKey: NAME,
      issuedAtMs: INSTANT,
      expiresAtMs: INSTANT,
      usableFromMs: INSTANT,
      revokedAtMs: v.optional(INSTANT),
    }),
  ),
});

export type StoredState = v.InferOutput<typeof STORED>;

/** The state in a parsed file. Throws if it is damaged. */
export function storedState(given: unknown): StoredState {
  const state = checked('state', STORED, given);
  const { apps, owners, accessKeys, tokens } = state;
  for (const all of [apps, owners, accessKeys]) mustDiffer(all.map(({ id }) => id));
  for (const all of [accessKeys, tokens]) mustDiffer(all.map(({ value }) => value));
  mustDiffer(apps.map(({ clientId }) => clientId));
  const [appIds, ownerIds] = [apps, owners].map((all) => new Set(all.map(({ id }) => id)));
  const pairs = accessKeys.every(({ appId, ownerId }) => appIds?.has(appId) && ownerIds?.has(ownerId));
  if (!pairs) throw new TypeError('an access key pairs what is not there');
  return state;
}

function mustDiffer(values: readonly string[]): void {
  if (new Set(values).size < values.length) throw new TypeError('something is there twice');
}
