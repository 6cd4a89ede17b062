/** Counts the owners of registries, and finds some of them, in slices. Reads the registries, and changes nothing. */

import { inSlices } from '../clock.ts';
import type { SharingStats } from '../redis/shared-tokens.ts';
import type { KnownOwner } from '../registry/reports.ts';
import { type FoundOwner, MAX_FOUND } from './frames.ts';
import type { LiveViewOptions, ViewedRegistry } from './options.ts';
import { causeIdOf, type Facts, type SharingFacts, Survey } from './status.ts';

/** Counts the owners of a registry. `done` is called at once if they fit into one slice. */
export function count(
  registry: ViewedRegistry,
  { fleets, runbooksUrl }: LiveViewOptions,
  now: () => number,
  done: (facts: Facts) => void,
): void {
  const survey = new Survey(registry.stats());
  inSlices(
    registry.eachOwner(),
    (owner) => survey.add(owner),
    () => {
      const fleet = sharingOf(fleets?.[registry.name]);
      done(survey.result(registry.name, registry.stats(), now(), runbooksUrl, fleet));
    },
  );
}

/** Without them if they throw: nothing that the page shows may break the host. */
export function sharingOf(
  fleet: NonNullable<LiveViewOptions['fleets']>[string] | undefined,
): (SharingStats & SharingFacts) | undefined {
  try {
    return fleet?.stats();
  } catch {
    return undefined;
  }
}

/** The first of the owners that match, those called exactly so and those without a token first, and how many there are. */
export function find(
  registry: ViewedRegistry,
  matches: (owner: KnownOwner) => boolean,
  exactly = '',
): Promise<{ owners: FoundOwner[]; total: number }> {
  const [exact, failing, others]: [KnownOwner[], KnownOwner[], KnownOwner[]] = [[], [], []];
  let total = 0;
  const visit = (owner: KnownOwner) => {
    if (!matches(owner)) return;
    total++;
    const isFailing = owner.failure !== undefined || owner.expiresAtMs === undefined;
    const list = owner.owner === exactly ? exact : isFailing ? failing : others;
    if (list.length < MAX_FOUND) list.push(owner);
  };
  return new Promise((resolve) => {
    inSlices(registry.eachOwner(), visit, () => {
      const owners = [...exact, ...failing, ...others].slice(0, MAX_FOUND).map(({ ...owner }) => owner);
      resolve({ owners, total });
    });
  });
}

/** Whether its label or fingerprint contains the text. A fingerprint is computed only for what may be a part of one. */
export function isNamed(wanted: string): (owner: KnownOwner) => boolean {
  const text = wanted.trim().toLowerCase();
  const mayBeFingerprint = /^owner_[\w-]{4,}$/.test(text);
  return (known) =>
    known.owner.toLowerCase().includes(text) || (mayBeFingerprint && known.fingerprint.toLowerCase().includes(text));
}

/** Whether it fails for this cause. */
export function failsFor(cause: string, registry: ViewedRegistry): (owner: KnownOwner) => boolean {
  const { pauses } = registry.stats();
  return (owner) => causeIdOf(owner, pauses) === cause;
}
