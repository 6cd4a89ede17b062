/** What a scene is made of in which the API misbehaves that the tokens are for. */

import type { OwnerTokenRegistryOptions } from '../../../src/index.ts';
import type { Span } from '../scene.ts';
import type { Services } from './services.ts';

export interface ApiScene {
  readonly name: string;
  readonly minutes: number;
  readonly owners: number;
  /** Each owner calls this often: half to one and a half times as long after its last call. */
  readonly everyMs: number;
  /** The lifetime that the token service states, and the real one if it is another. */
  readonly lifeS: number;
  readonly trueLifeS?: number;
  /** The API accepts a token only so long after its issue. */
  readonly validAfterMs?: number;
  readonly apiClockAheadMs?: number;
  /** How long the API takes, give or take a fifth; to answer 401, if that is different. */
  readonly apiMs?: number;
  readonly refusalMs?: number;
  /** A new token revokes the owner's one before. */
  readonly replaces?: true;
  /** Which route a call is made to. Default: `/`. */
  readonly route?: (random: () => number) => string;
  /**
   * `hand`: calls use `getToken` and `reject`, and are not made again after a 401; with `accepts` they use `accept`, too.
   * Default: `ownerFetch`.
   */
  readonly style?: 'hand';
  readonly accepts?: true;
  /** What the API and the token service do, made anew for each run. The first rule that answers a request decides. */
  readonly api?: () => readonly ApiRule[];
  readonly tokens?: () => readonly TokenRule[];
  /** What else happens. */
  readonly script?: (services: Services) => void;
  /** Options of the registry. */
  readonly options?: Partial<OwnerTokenRegistryOptions>;
  /** When the fault lasts: owners must be served again soon after its end. */
  readonly fault?: Span;
  /** The API refuses everybody for five minutes or more: few token requests may be spent on that. */
  readonly longOutage?: boolean;
  /** Only tokens that are issued after the fault are good. */
  readonly onlyNewerHelps?: true;
  /** Percentage points that may be lost instead of the judge's, where something must cost more than chance does. */
  readonly slackPoints?: number;
  /** Which calls count. Others are made too. */
  readonly counts?: (call: ApiCall) => boolean;
}

export interface ApiCall {
  readonly owner: number;
  readonly route: string;
  readonly atMs: number;
}

/** A token that the service issued. */
export interface ApiToken {
  readonly owner: number;
  readonly value: string;
  readonly issuedMs: number;
  readonly endsMs: number;
  revoked: boolean;
}

/** How the API answers a call; nothing: 401 unless the token is alive. */
export type ApiRule = (
  call: ApiCall & { readonly token: ApiToken | undefined },
  services: Services,
) => number | undefined;

/** How the token service answers: with a new token after a while, an error status, or the same token again. */
export interface TokenAnswer {
  readonly status?: number;
  readonly ms?: number;
  readonly token?: ApiToken;
}
export type TokenRule = (
  request: { readonly owner: number; readonly atMs: number },
  services: Services,
) => TokenAnswer | undefined;
