/** The arguments of `liveView`, and their check. */

import type { IncomingMessage } from 'node:http';
import type { Clock } from '../clock.ts';
import { aBoolean, aClock, aFunction, checkOptions, hasMethods, type OptionRules } from '../option-check.ts';
import { parseUrl } from '../parse-url.ts';
import type { SharedTokens } from '../redis/shared-tokens.ts';
import type { OwnerTokenRegistry } from '../registry/registry.ts';

/**
 * What the live view needs of a registry.
 *
 * @example
 * ```ts
 * const viewed: ViewedRegistry = registry;
 * console.log(viewed.name); // → default
 * ```
 */
export type ViewedRegistry = Pick<
  OwnerTokenRegistry,
  'name' | 'stats' | 'owners' | 'eachOwner' | 'describe' | 'fingerprint'
>;

/**
 * Options of {@link liveView}. Exactly one of `authorize` and `public` must be given for the page to be shown.
 *
 * @example
 * ```ts
 * import type { Request } from 'express';
 *
 * const options: LiveViewOptions = { authorize: (request: Request) => request.get('x-role') === 'support' };
 * ```
 */
export interface LiveViewOptions {
  /**
   * Decides about each request: the `IncomingMessage` that `node` got, or the `Request` that `fetch` got. Refused unless it
   * returns, or resolves to, `true`. The event stream of an open page is one request: closing the session does not end it.
   */
  authorize?(request: IncomingMessage | Request): boolean | Promise<boolean>;
  /** `true`: everyone who reaches the address may look, because something in front decides. */
  public?: boolean | undefined;
  /** Whether an owner can be looked up by its access key, which the page sends in a body and keeps nowhere. Default: false. */
  accessKeySearch?: boolean | undefined;
  /** The `SharedTokens` of registries, by the registry's name, to show what sharing does. Default: none. */
  fleets?: Readonly<Record<string, Pick<SharedTokens, 'stats'>>> | undefined;
  /** Where the runbooks are: the address that replaces `RUNBOOKS` in the alerts. The page links to their headings. Default: no links. */
  runbooksUrl?: string | undefined;
  /** A dashboard of all replicas, to which the page links. Default: none. */
  dashboardUrl?: string | undefined;
  /** The clock of the registries. Default: the system's. */
  clock?: Clock | undefined;
}

/** Of the web alone: a link that runs script would be one on the host's own page. */
const anAddress = {
  passes: (value: unknown) => typeof value === 'string' && /^https?:$/.test(parseUrl(value)?.protocol ?? ''),
  expected: 'an address that begins with http:// or https://',
};

const OPTIONS: OptionRules<LiveViewOptions> = {
  authorize: aFunction,
  public: aBoolean,
  accessKeySearch: aBoolean,
  runbooksUrl: anAddress,
  dashboardUrl: anAddress,
  fleets: { passes: (value) => typeof value === 'object', expected: 'an object with a SharedTokens for each registry' },
  clock: aClock,
};

/**
 * Checks both arguments.
 *
 * @throws OwnerTokenError `invalid_options`, listing every problem.
 */
export function checkArguments(
  given: ViewedRegistry | Iterable<ViewedRegistry>,
  options: LiveViewOptions,
): { registries: ViewedRegistry[]; options: LiveViewOptions } {
  const isIterable = typeof given === 'object' && given !== null && Symbol.iterator in given;
  const registries = isIterable ? [...given] : [given];
  const checked = checkOptions('liveView', options, OPTIONS, ({ authorize, public: isPublic, fleets }, problems) => {
    const names = new Set<string>();
    if (registries.length === 0) problems.push('registries: expected at least one registry');
    for (const registry of registries) {
      if (!hasMethods(registry, 'stats', 'owners', 'eachOwner', 'describe', 'fingerprint')) {
        problems.push('registries: expected an OwnerTokenRegistry, or several');
      } else if (names.size === names.add(registry.name).size) {
        problems.push(
          `registries: expected registries with different names (two are \`${registry.name}\`: set the option \`name\`)`,
        );
      }
    }
    for (const [name, fleet] of Object.entries(fleets ?? {})) {
      if (!names.has(name)) problems.push(`fleets.${name}: expected the name of a registry: ${[...names].join(', ')}`);
      else if (!hasMethods(fleet, 'stats')) problems.push(`fleets.${name}: expected a SharedTokens`);
    }
    if (authorize && isPublic) problems.push('public: expected nothing beside `authorize`: choose one of the two');
  });
  return { registries, options: checked };
}
