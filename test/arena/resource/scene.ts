/** What a scene is made of in which the API misbehaves that the tokens are for. */

import type { OwnerTokenRegistryOptions } from '../../../src/index.ts';
import type { Service } from '../../world/service.ts';
import type { Setting, Span } from '../../world/setting.ts';

export interface ApiScene extends Omit<Setting, 'tenants'> {
  readonly name: string;
  readonly owners: number;
  /** Each owner calls this often: half to one and a half times as long after its last call. */
  readonly everyMs: number;
  readonly tokenLifeS: number;
  /** Which route a call is made to. Default: `/`. */
  readonly route?: (random: () => number) => string;
  /**
   * `hand`: calls use `getToken` and `reject`, and are not made again after a 401; with `accepts` they use `accept`, too.
   * Default: `ownerFetch`.
   */
  readonly style?: 'hand';
  readonly accepts?: true;
  /** What else happens. */
  readonly script?: (service: Service) => void;
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
  /** Which calls count, by the number of their owner. Others are made too. */
  readonly counts?: (call: { readonly number: number; readonly route: string; readonly atMs: number }) => boolean;
}
