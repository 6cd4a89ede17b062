/** What the server sends to the page: labels and fingerprints, numbers and codes, nothing that could be a secret. */

import type { OwnerTokenErrorCode, WiderScope } from '../errors/owner-token-error.ts';
import type { Lane, PictureData, Second } from '../page-engine/data.ts';
import type { Sent } from '../page-engine/state-stream.ts';
import type { RedisFailure } from '../redis/redis-link.ts';
import type { SharingStats } from '../redis/shared-tokens.ts';
import type { OwnerReport } from '../registry/reports.ts';
import type { RegistryStats } from '../registry/stats.ts';
import type { RequestReason } from '../token-source.ts';
import type { Facts } from './status.ts';

/** The process that the page shows. */
export interface Replica {
  /** A new one for each process, so that the page notices a restart. */
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly startedAtMs: number;
  /** Of this package. */
  readonly version: string;
  readonly node: string;
}

/** A token request. Without `tookMs` it is in flight. */
export interface RequestView {
  readonly id: number;
  readonly registry: string;
  readonly owner: string;
  readonly reason: RequestReason;
  readonly atMs: number;
  tookMs?: number;
  /** Fingerprint of the issued token. */
  token?: string;
  /** Epoch ms: when the token expires; absent: when it is rejected. */
  expiresAtMs?: number;
  /** Epoch ms: when the token was reported as rejected. */
  rejectedAtMs?: number;
  code?: OwnerTokenErrorCode;
  status?: number;
}

/** An open circuit. Without `toMs` it is open now. */
export interface OutageView {
  readonly id: number;
  readonly registry: string;
  readonly scope: WiderScope;
  readonly fromMs: number;
  toMs?: number;
}

/** Since when tokens are not shared, and why. */
export interface SharingOff extends Partial<RedisFailure> {
  readonly sinceMs: number;
}

export interface RegistryView {
  readonly name: string;
  readonly stats: RegistryStats;
  /** Of when the owners were last counted; the statistics are those of now. Absent while they are counted for the first time. */
  readonly status?: Omit<Facts, 'atMs'>;
  readonly fleet?: SharingStats;
  /** Absent if sharing went off before the view was mounted, too. */
  readonly sharingOff?: SharingOff;
  /** Absent until there are two readings of the statistics. */
  readonly rates?: Rates;
}

/** Per second: calls, those that failed, that their callers gave up and that were late, and token requests. */
export interface Rates extends Readonly<Record<'calls' | 'abandoned' | 'late' | 'requests' | 'fromCache', number>> {
  readonly failed: RegistryStats['failedCalls'];
}

/** The lanes and the time rail of a window. */
export interface PictureView extends Omit<PictureData, 'seconds'> {
  readonly seconds: readonly Second[];
  /** Epoch ms: no request since then is missing. */
  readonly completeSinceMs: number;
  /** The one that the view names. */
  readonly request?: RequestView;
}

/** The whole state. */
export interface Frame {
  readonly clock: {
    readonly nowMs: number;
    /** How long the process has run, by its own clock, which no other is compared with. */
    readonly upMs: number;
  };
  readonly registries: readonly RegistryView[];
  /** Of the registry that the view names, or else the first. */
  readonly picture: PictureView;
  readonly replica: Replica;
  readonly page: PageOptions;
}

/** A frame as the stream sends it. */
export type SentFrame = Omit<Frame, 'picture'> & { readonly picture: Sent<PictureView> };

/** What the host has set. */
export interface PageOptions {
  /** Whether an owner can be looked up by its access key. */
  readonly accessKeys: boolean;
  readonly dashboardUrl?: string | undefined;
  readonly runbooksUrl?: string | undefined;
}

/**
 * What the page asks for. In a body, because an address is logged, and a key may be pasted into the wrong box. `view`: the query
 * of the stream, for the lanes of the owners that are found.
 */
export type Search =
  | { readonly text: string; readonly view: string }
  | { readonly cause: string }
  | { readonly accessKey: string };

export interface Found {
  /** At most {@link MAX_FOUND} of each registry, those without service first. */
  readonly owners: Readonly<Record<string, readonly FoundOwner[]>>;
  /** How many there are, by registry. */
  readonly total: Readonly<Record<string, number>>;
  /** Where a view was given. */
  readonly lanes?: readonly Lane[];
  /** Which replica has answered: behind a load balancer, any. */
  readonly replica: Pick<Replica, 'id' | 'host' | 'pid'>;
}

/** An owner, and its fingerprint if that is another name of it. */
export type FoundOwner = OwnerReport & { readonly fingerprint?: string };

export const MAX_FOUND = 50;
