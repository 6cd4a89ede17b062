import type { Clock } from '../../src/clock.ts';
import type { SharedTokensOptions } from '../../src/redis/options.ts';
import { SharedTokens } from '../../src/redis/shared-tokens.ts';
import type { OwnerTokenRegistryOptions } from '../../src/registry/options.ts';
import { OwnerTokenRegistry } from '../../src/registry/registry.ts';
import type { IssuedToken, TokenRequest, TokenSource } from '../../src/token-source.ts';
import { ManualClock, settle } from './manual-clock.ts';
import { ScriptedSource } from './scripted-source.ts';
import { SharedRecordModel } from './shared-record-model.ts';

/** A scripted source with an `identity()`, which `SharedTokens` requires. */
export class FleetSource extends ScriptedSource {
  identity = (): string | Promise<string> => 'endpoint and client';

  static override answering(expiresInSeconds = 3600): FleetSource {
    return new FleetSource((call) => call.succeed({ response: { expires_in: expiresInSeconds } }));
  }
}

export const SEALING_KEY = Uint8Array.from({ length: 32 }, (_, index) => index);

/** The state of Redis: up; refusing connections; hung; executing but losing replies; read-only. */
export type RedisHealth = 'up' | 'down' | 'hung' | 'mute' | 'read_only';

export interface ModelReplica {
  readonly shared: SharedTokens;
  readonly registry: OwnerTokenRegistry;
  /** The state of Redis as this replica sees it. */
  health: RedisHealth;
}

/** Replicas in one process on one manual clock, over the model of the shared record. */
export class ModelFleet {
  readonly clock = new ManualClock();
  readonly model = new SharedRecordModel(() => Math.floor(this.clock.now() * 1000));
  readonly source: FleetSource;
  health: RedisHealth = 'up';
  readonly #random: () => number;

  constructor(source = FleetSource.answering(), random: () => number = () => 0.5) {
    this.source = source;
    this.#random = random;
  }

  replica(
    options: Partial<SharedTokensOptions> & {
      skewMs?: number;
      registry?: Partial<OwnerTokenRegistryOptions>;
      /** What the registry gets in place of the shared source. */
      decorated?(shared: SharedTokens): TokenSource;
    } = {},
  ): ModelReplica {
    const { skewMs = 0, registry: registryOptions, decorated = (shared) => shared, ...rest } = options;
    const clock: Clock = {
      now: () => this.clock.now() + skewMs,
      monotonic: () => this.clock.monotonic(),
      setTimeout: (fn, ms) => this.clock.setTimeout(fn, ms),
    };
    const health = () => (replica.health === 'up' ? this.health : replica.health);
    const redis = this.model.port(async (answer) => {
      if (health() === 'down') throw new Error('connect ECONNREFUSED');
      if (health() === 'read_only') throw new Error("READONLY You can't write against a read only replica.");
      if (health() === 'hung') await new Promise(() => {});
      if (health() === 'mute') await new Promise(() => answer());
      return answer();
    });
    const random = this.#random;
    const shared = new SharedTokens({
      source: this.source,
      redis,
      sealingKeys: [SEALING_KEY],
      clock,
      random,
      ...rest,
    });
    const registry = new OwnerTokenRegistry({ source: decorated(shared), clock, random, ...registryOptions });
    const replica: ModelReplica = { shared, registry, health: 'up' };
    return replica;
  }

  /** Advances the clock in steps, and runs everything that is ready in between. */
  async pass(ms: number, stepMs = 50): Promise<void> {
    for (let leftMs = ms; leftMs > 0; leftMs -= stepMs) {
      await settle();
      this.clock.advance(Math.min(stepMs, leftMs));
    }
    await settle();
  }
}

/** A token request like a registry's, for tests without a registry. */
export function requestOf(fields: Partial<TokenRequest> = {}): TokenRequest {
  const lifetimeMs = (issued: IssuedToken) => Number(issued.response?.expires_in ?? 300) * 1000;
  return { signal: new AbortController().signal, reason: 'absent', lifetimeMs, ...fields };
}
