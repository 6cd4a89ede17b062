/** {@link instrument} as an instrumentation that an OpenTelemetry SDK enables and disables. */

import type { MeterProvider, TracerProvider } from '@opentelemetry/api';
import { InstrumentationBase, type InstrumentationConfig } from '@opentelemetry/instrumentation';
import { type InstrumentOptions, report, SCOPE_NAME } from './instrument.ts';
import { checkArguments, type Observed } from './metrics.ts';

/**
 * Configuration of an {@link OwnerTokenInstrumentation}.
 *
 * @example
 * ```ts
 * const config: OwnerTokenInstrumentationConfig = { enabled: true, ownerAttribute: 'customer' };
 * ```
 */
export interface OwnerTokenInstrumentationConfig
  extends InstrumentationConfig,
    Pick<InstrumentOptions, 'ownerAttribute'> {}

/**
 * Options of a single registry.
 *
 * @example
 * ```ts
 * const options: ObserveOptions = { name: 'crm' };
 * new OwnerTokenInstrumentation().observe(registry, options);
 * ```
 */
export type ObserveOptions = Pick<InstrumentOptions, 'name' | 'fleet'>;

/**
 * An instrumentation for `registerInstrumentations` or `NodeSDK`, which set its providers. It reports the registries
 * that were passed to {@link observe}.
 *
 * @example
 * ```ts
 * import { registerInstrumentations } from '@opentelemetry/instrumentation';
 *
 * const instrumentation = new OwnerTokenInstrumentation();
 * registerInstrumentations({ instrumentations: [instrumentation] });
 * instrumentation.observe(registry);
 * ```
 */
export class OwnerTokenInstrumentation extends InstrumentationBase<OwnerTokenInstrumentationConfig> {
  /** The observed registries; `stop` is set while a registry is being reported. */
  readonly #observed = new Map<Observed, { readonly options: ObserveOptions; stop?: () => void }>();

  /** @param config `enabled` is `true` by default. */
  constructor(config: OwnerTokenInstrumentationConfig = {}) {
    super(SCOPE_NAME, '1.0.0', config);
  }

  /**
   * Reports this registry too. Returns a function that stops it.
   *
   * @throws {OwnerTokenError} `invalid_options`
   */
  observe(registry: Observed, given: ObserveOptions = {}): () => void {
    const options = checkArguments('observe', registry, given, ['name', 'fleet']);
    this.#unobserve(registry);
    this.#observed.set(registry, { options });
    OwnerTokenInstrumentation.#restart(this);
    return () => this.#unobserve(registry);
  }

  /** Starts reporting. */
  override enable(): void {
    super.enable();
    OwnerTokenInstrumentation.#restart(this);
  }

  /** Stops reporting until {@link enable} is called. */
  override disable(): void {
    super.disable();
    OwnerTokenInstrumentation.#restart(this);
  }

  /** Replaces the configuration. */
  override setConfig(config: OwnerTokenInstrumentationConfig): void {
    super.setConfig(config);
    OwnerTokenInstrumentation.#restart(this);
  }

  /** Sends metrics to this provider from now on. */
  override setMeterProvider(meterProvider: MeterProvider): void {
    super.setMeterProvider(meterProvider);
    OwnerTokenInstrumentation.#restart(this);
  }

  /** Sends spans to this provider from now on. */
  override setTracerProvider(tracerProvider: TracerProvider): void {
    super.setTracerProvider(tracerProvider);
    OwnerTokenInstrumentation.#restart(this);
  }

  /** Patches no module: the registry publishes to diagnostics channels. */
  protected override init(): void {}

  #unobserve(registry: Observed): void {
    this.#observed.get(registry)?.stop?.();
    this.#observed.delete(registry);
  }

  /** Static, because the base class's constructor calls `enable` before the private fields of this class exist. */
  static #restart(of: OwnerTokenInstrumentation): void {
    if (!(#observed in of)) return;
    const { ownerAttribute } = of.getConfig();
    for (const [registry, entry] of of.#observed) {
      entry.stop?.();
      delete entry.stop;
      if (of.isEnabled())
        entry.stop = report(registry, { meter: of.meter, tracer: of.tracer }, { ownerAttribute, ...entry.options });
    }
  }
}
