/** What the server sends to the page: labels and fingerprints, numbers and codes, nothing that could be a secret. */

import type { OwnerTokenErrorCode, WiderScope } from '../errors/owner-token-error.ts';
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
  /** How long it has run, by its own clock, which no other is compared with. */
  readonly upMs: number;
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

export interface RegistryView {
  readonly name: string;
  readonly stats: RegistryStats;
  /** Of when the owners were last counted; the statistics are those of now. Absent while they are counted for the first time. */
  readonly status?: Facts;
  readonly fleet?: SharingStats;
}

/** Sent twice a second. */
export interface Frame {
  readonly nowMs: number;
  readonly registries: readonly RegistryView[];
  /** The requests that began or ended since the last frame. */
  readonly requests: readonly RequestView[];
  readonly outages: readonly OutageView[];
  /** In the first frame only. */
  readonly replica?: Replica;
  /** In the first frame only: owners that fail and that were used last, by registry, because their tokens are older than what was recorded. */
  readonly owners?: Readonly<Record<string, readonly OwnerReport[]>>;
  /** In the first frame only. */
  readonly page?: PageOptions;
}

/** What does not change while a page is open. */
export interface PageOptions {
  /** When the recording of requests began. */
  readonly recordedSinceMs: number;
  /** Whether an owner can be looked up by its access key. */
  readonly accessKeys: boolean;
  readonly dashboardUrl?: string | undefined;
}

/** What the page asks for. In a body, because an address is logged, and a key may be pasted into the wrong box. */
export type Search = { readonly text: string } | { readonly cause: string } | { readonly accessKey: string };

export interface Found {
  /** At most {@link MAX_FOUND} of each registry, those without service first. */
  readonly owners: Readonly<Record<string, readonly FoundOwner[]>>;
  /** How many there are, by registry. */
  readonly total: Readonly<Record<string, number>>;
  /** Which replica has answered: behind a load balancer, any. */
  readonly replica: Pick<Replica, 'id' | 'host' | 'pid'>;
}

/** An owner, and its fingerprint if that is another name of it. */
export type FoundOwner = OwnerReport & { readonly fingerprint?: string };

export const MAX_FOUND = 50;
