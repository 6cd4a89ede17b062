import type { ExpiryPolicy } from '../../../src/expiry/lifetime.ts';
import type { OwnerTokenRegistryOptions } from '../../../src/registry/options.ts';
import type { OwnerTokenRegistry } from '../../../src/registry/registry.ts';

export interface WorldCounts {
  calls: number;
  requests: number;
  oddRequests: number;
  outlived: number;
  injected: number;
}

export interface World<P extends ExpiryPolicy> {
  phases: readonly { lifetimeMs: number; lifetimes: number }[];
  policyFor(hiddenLifetimeMs: () => number): P;
  makeRegistry(options: OwnerTokenRegistryOptions): OwnerTokenRegistry;
  owners?: number;
  callsPerLifetime?: number;
  burst?: number;
  together?: number;
  spread?: number;
  revoked?: number;
  revokedPerCall?: number;
  spurious?: number;
  revokedAllEveryMs?: number;
  refuses?(nowMs: number): boolean;
  odd?: number;
  oddStayMs?: number;
  oddAnswer?(ageMs: number, random: number): boolean;
  seed?: number;
  onCall?(nowMs: number, policy: P, phase: number): void;
}

export function runWorld<P extends ExpiryPolicy>(world: World<P>): Promise<{ counts: WorldCounts[]; policy: P }>;
