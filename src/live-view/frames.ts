/** What the server sends to the page: labels and fingerprints, numbers and codes, nothing that could be a secret. */

import type { OwnerTokenErrorCode, WiderScope } from '../errors/owner-token-error.ts';
import type { SharingStats } from '../redis/shared-tokens.ts';
import type { OwnerReport } from '../registry/reports.ts';
import type { RegistryStats } from '../registry/stats.ts';
import type { RequestReason } from '../token-source.ts';

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

export interface RegistryView {
  readonly name: string;
  readonly stats: RegistryStats;
  /** The owners that fail, the worst first; the others are found by the search. */
  readonly failing: readonly OwnerReport[];
  /** Some of the owners whose newest tokens the API rejects. */
  readonly rejected: readonly OwnerReport[];
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
  /** In the first frame only: the owners used last, by registry, because their tokens are older than what was recorded. */
  readonly working?: Readonly<Record<string, readonly OwnerReport[]>>;
  /** In the first frame only: whether an owner can be looked up by its access key. */
  readonly accessKeys?: boolean;
}

/** What the page asks for. In a body, because an address is logged, and a key may be pasted into the wrong box. */
export type Search = { readonly text: string } | { readonly accessKey: string };

export interface Found {
  /** At most {@link MAX_FOUND} of each registry. */
  readonly owners: Readonly<Record<string, readonly OwnerReport[]>>;
}

export const MAX_FOUND = 50;
