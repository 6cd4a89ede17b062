/** {@link instrument} as an instrumentation that an OpenTelemetry SDK enables and disables. */

import type { MeterProvider, TracerProvider } from '@opentelemetry/api';
import { type InstrumentOptions, instrument, SCOPE_NAME } from './instrument.ts';
import type { Observed } from './metrics.ts';

/** Configuration of an {@link OwnerTokenInstrumentation}. */
export interface OwnerTokenInstrumentationConfig extends Pick<InstrumentOptions, 'ownerAttribute'> {
  /** Default `true`. */
  enabled?: boolean;
}

/**
 * An instrumentation for `registerInstrumentations` or `NodeSDK`, which set its providers. It reports the registries
 * that were passed to {@link observe}.
 *
 * @example
 * ```ts
 * const instrumentation = new OwnerTokenInstrumentation();
 * new NodeSDK({ instrumentations: [instrumentation] }).start();
 * instrumentation.observe(registry);
 * ```
 */
export class OwnerTokenInstrumentation {
  readonly instrumentationName = SCOPE_NAME;
  readonly instrumentationVersion = '0.1.0';
  #config: OwnerTokenInstrumentationConfig;
  #enabled: boolean;
  #meterProvider: MeterProvider | undefined;
  #tracerProvider: TracerProvider | undefined;
  /** The observed registries; `stop` is set while a registry is being reported. */
  readonly #observed = new Map<Observed, { readonly options: ObserveOptions; stop?: () => void }>();

  constructor(config: OwnerTokenInstrumentationConfig = {}) {
    this.#config = config;
    this.#enabled = config.enabled ?? true;
  }

  /** Reports this registry too. Returns a function that stops it. */
  observe(registry: Observed, options: ObserveOptions = {}): () => void {
    this.#unobserve(registry);
    this.#observed.set(registry, { options });
    this.#restart();
    return () => this.#unobserve(registry);
  }

  enable(): void {
    this.#enabled = true;
    this.#restart();
  }

  disable(): void {
    this.#enabled = false;
    this.#restart();
  }

  setMeterProvider(meterProvider: MeterProvider): void {
    this.#meterProvider = meterProvider;
    this.#restart();
  }

  setTracerProvider(tracerProvider: TracerProvider): void {
    this.#tracerProvider = tracerProvider;
    this.#restart();
  }

  setConfig(config: OwnerTokenInstrumentationConfig): void {
    this.#config = config;
    this.#restart();
  }

  getConfig(): OwnerTokenInstrumentationConfig {
    return this.#config;
  }

  #unobserve(registry: Observed): void {
    this.#observed.get(registry)?.stop?.();
    this.#observed.delete(registry);
  }

  #restart(): void {
    const { ownerAttribute } = this.#config;
    const providers = { meterProvider: this.#meterProvider, tracerProvider: this.#tracerProvider };
    for (const [registry, entry] of this.#observed) {
      entry.stop?.();
      delete entry.stop;
      if (this.#enabled) entry.stop = instrument(registry, { ownerAttribute, ...providers, ...entry.options });
    }
  }
}

/** Options of a single registry. */
export type ObserveOptions = Pick<InstrumentOptions, 'name' | 'fleet'>;
