/** Metrics and spans over the real SDK: in memory, and scraped from the Prometheus exporter over HTTP. */

import { AsyncLocalStorage } from 'node:async_hooks';
import { tracingChannel } from 'node:diagnostics_channel';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Context, context, createContextKey, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { InstrumentationBase, registerInstrumentations } from '@opentelemetry/instrumentation';
import {
  AggregationTemporality,
  type DataPoint,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import promClient from 'prom-client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { OwnerTokenError, OwnerTokenRegistry, type TokenSource } from '../../src/index.ts';
import { instrument as instrumentOf } from '../../src/otel/index.ts';
import { OwnerTokenInstrumentation } from '../../src/otel/instrumentation.ts';
import { METRICS, type MetricName } from '../../src/otel/metrics.ts';
import { registerMetrics } from '../../src/otel/prom-client.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { errorOf } from '../helpers/registries.ts';
import { ROOT } from '../helpers/source-files.ts';

const KEY = createContextKey('of the caller');
const memory = new InMemorySpanExporter();
const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(memory)] });
const tracer = tracerProvider.getTracer('test');

/** Issues tokens of 100 s, refuses `revoked`, and opens a span of its own like an HTTP client. */
const source: TokenSource = {
  async requestToken(accessKey) {
    tracer.startSpan('POST', { kind: SpanKind.CLIENT }).end();
    if (accessKey === 'hangs') return new Promise(() => {});
    if (accessKey === 'revoked') throw new OwnerTokenError('owner_refused', 'refused', { status: 400 });
    if (accessKey === 'invalid-client')
      throw new OwnerTokenError('client_refused', 'wrong secret', { status: 401, failureScope: 'client' });
    return { token: `canary-token-${accessKey}`, response: { expires_in: 100 } };
  },
};

let clock: ManualClock;
let registry: OwnerTokenRegistry;
let exporter: InMemoryMetricExporter;
let reader: PeriodicExportingMetricReader;
let meterProvider: MeterProvider;
let stops: (() => void)[] = [];

/** Reports until the test ends. */
const instrument: typeof instrumentOf = (...args) => {
  const stop = instrumentOf(...args);
  stops.push(stop);
  return stop;
};

beforeEach(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  clock = new ManualClock(1_000_000);
  registry = new OwnerTokenRegistry({ source, clock, name: 'crm', random: () => 0.5 });
  exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  meterProvider = new MeterProvider({ readers: [reader] });
});

afterEach(async () => {
  for (const stop of stops) stop();
  stops = [];
  await registry.close();
  await meterProvider.shutdown();
  memory.reset();
  context.disable();
});

/** All series of a metric: its attributes but the registry's name, as text, and its value; of a histogram its count or sum. */
async function series(metric: MetricName, of: 'count' | 'sum' = 'count'): Promise<Record<string, number>> {
  exporter.reset();
  await reader.forceFlush();
  const found = exporter
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
    .filter(({ descriptor }) => descriptor.name === metric)
    .flatMap(({ dataPoints }): readonly DataPoint<number | { count: number; sum?: number }>[] => dataPoints);
  return Object.fromEntries(
    found.map(({ attributes: { 'owner_token.registry': name, ...attributes }, value }) => {
      expect(name).toBe('crm');
      return [Object.values(attributes).join(' '), typeof value === 'number' ? value : (value[of] ?? 0)];
    }),
  );
}

const failureFor = (accessKey: string) => errorOf(registry.getToken(accessKey));

describe('metrics', () => {
  it('report what the registry did, under OpenTelemetry names', async () => {
    const stop = instrument(registry, { meterProvider, tracerProvider });
    await Promise.all([registry.getToken('a'), registry.getToken('a'), registry.getToken('b')]);
    await registry.getToken('a');
    await failureFor('revoked');
    await failureFor('revoked');
    registry.reject('b', await registry.getToken('b'));

    expect(await series('owner_token.request.duration')).toEqual({ absent: 2, 'absent owner_refused': 1 });
    expect(await series('owner_token.request.queue.duration')).toEqual({ absent: 3 });
    expect(await series('owner_token.owners')).toEqual({ held: 3, usable: 2, paused: 1, rejected: 0 });
    expect(await series('owner_token.lookups')).toEqual({ hit: 2, joined: 1, refused: 1 });
    expect(await series('owner_token.requests')).toEqual({ miss: 3, refresh: 0 });
    expect(await series('owner_token.failures')).toEqual({ '': 1 });
    expect(await series('owner_token.refusals')).toEqual({ owner: 1, client: 0, endpoint: 0 });
    expect(await series('owner_token.rejections')).toEqual({ '': 1 });
    expect(await series('owner_token.evictions')).toEqual({ '': 0 });
    stop();
    await registry.getToken('c');
    expect(await series('owner_token.request.duration')).toEqual({ absent: 2, 'absent owner_refused': 1 });
    const { requests } = registry.stats();
    expect(requests).toBe(4);
    expect(await series('owner_token.requests')).not.toMatchObject({ miss: requests });
  });

  it('report how many owners have tokens that the API rejects, apart from those whose requests fail', async () => {
    const stop = instrument(registry, { meterProvider, tracerProvider });
    for (const accessKey of ['a', 'b', 'a', 'b']) registry.reject(accessKey, await registry.getToken(accessKey));
    expect(await series('owner_token.owners')).toMatchObject({ usable: 2, paused: 0, rejected: 2 });
    registry.accept('a', await registry.getToken('a'));
    expect(await series('owner_token.owners')).toMatchObject({ rejected: 1 });
    stop();
  });

  it('distinguish refreshes from requests of calls that found no usable token', async () => {
    instrument(registry, { meterProvider, tracerProvider });
    await registry.getToken('a');
    clock.advance(90_000);
    await registry.getToken('a');
    await settle();
    expect(await series('owner_token.requests')).toEqual({ miss: 1, refresh: 1 });
    expect(await series('owner_token.request.duration')).toEqual({ absent: 1, refresh: 1 });
  });

  it('report durations and waits in seconds', async () => {
    const slow: TokenSource = {
      requestToken: (owner) =>
        new Promise((resolve) =>
          clock.setTimeout(() => resolve({ token: `slow-${owner}`, response: { expires_in: 100 } }), 200),
        ),
    };
    await using one = new OwnerTokenRegistry({ source: slow, clock, name: 'crm', concurrency: 1 });
    instrument(one, { meterProvider, tracerProvider });
    const stop = registerMetrics(promClient, one);
    const both = Promise.all([one.getToken('a'), one.getToken('b')]);
    for (let step = 0; step < 2; step++) {
      await settle();
      clock.advance(200);
    }
    await both;
    const [durations, waits] = ['owner_token.request.duration', 'owner_token.request.queue.duration'] as const;
    expect((await series(durations, 'sum')).absent).toBeCloseTo(0.4, 5);
    expect((await series(waits, 'sum')).absent).toBeCloseTo(0.2, 5);
    const scraped = await promClient.register.metrics();
    stop();
    expect(scraped).toMatch(/^owner_token_request_duration_seconds_sum\{.*\} 0\.4$/m);
    expect(scraped).toMatch(/^owner_token_request_queue_duration_seconds_sum\{.*\} 0\.2$/m);
  });

  it('report the state of the circuits', async () => {
    instrument(registry, { meterProvider, tracerProvider });
    const { retryAtMs = 0 } = await failureFor('invalid-client');
    expect(await series('owner_token.circuit.state')).toMatchObject({
      'client closed': 0,
      'client open': 1,
      'client half_open': 0,
      'endpoint closed': 1,
      'endpoint open': 0,
      'endpoint half_open': 0,
    });
    clock.advance(retryAtMs - clock.now());
    const trial = registry.getToken('hangs').catch(() => {});
    await settle();
    expect(await series('owner_token.circuit.state')).toMatchObject({
      'client closed': 0,
      'client open': 0,
      'client half_open': 1,
    });
    await registry.close({ timeoutMs: 0 });
    await trial;
  });

  it.each(['endpoint', 'client'] as const)(
    'count calls refused by an open circuit of the %s as refused lookups',
    async (scope) => {
      const error = new OwnerTokenError('rate_limited', 'down', { failureScope: scope, retryAfterMs: 60_000 });
      const issued = { token: 'canary-token', response: { expires_in: 100 } };
      const requestToken = (accessKey: string) =>
        accessKey === 'served' ? Promise.resolve(issued) : Promise.reject(error);
      const pauses = { [scope]: { baseMs: 20_000, capMs: 30_000 } };
      await using down = new OwnerTokenRegistry({ source: { requestToken }, name: 'crm', pauses, clock });
      instrument(down, { meterProvider, tracerProvider });
      for (const key of ['served', 'a', 'b', 'c']) await down.getToken(key).catch(() => {});
      expect(await series('owner_token.lookups')).toEqual({ hit: 0, joined: 0, refused: 2 });
      expect(await series('owner_token.refusals')).toEqual({ owner: 0, client: 0, endpoint: 0, [scope]: 2 });
    },
  );

  it('report the outcomes of a fleet', async () => {
    const stats = { sharing: true, shared: 5, leader: 3, fallback: 2, refused: 1, unreadable: 0 };
    instrument(registry, { meterProvider, tracerProvider, fleet: { stats: () => stats } as never });
    expect(await series('owner_token.fleet.requests')).toEqual({ shared: 5, leader: 3, fallback: 2, refused: 1 });
  });

  it('carry an owner only on request, and then its fingerprint', async () => {
    instrument(registry, { meterProvider, tracerProvider, ownerAttribute: 'customer' });
    await registry.getToken('a');
    for (const metric of ['owner_token.request.duration', 'owner_token.request.queue.duration'] as const) {
      expect(await series(metric)).toEqual({ [`${registry.fingerprint('a')} absent`]: 1 });
    }
  });

  it('are recorded in the context of their span, so that exemplars link to it', async () => {
    const recordedIn: unknown[] = [];
    const meter = meterProvider.getMeter('test');
    const getMeter = () =>
      Object.assign(Object.create(meter), {
        createHistogram: () => ({
          record: (_value: number, _attributes: object, within: Context) =>
            recordedIn.push(trace.getSpanContext(within)?.spanId),
        }),
      });
    instrument(registry, { meterProvider: { getMeter }, tracerProvider });
    await registry.getToken('a');
    const [request] = memory.getFinishedSpans().filter(({ name }) => name === 'owner_token.request');
    expect(request).toBeDefined();
    expect(recordedIn).toEqual([request?.spanContext().spanId, request?.spanContext().spanId]);
  });

  it('are scraped from the Prometheus exporter over HTTP', async () => {
    const port = 9_464 + Math.floor(process.pid % 20_000);
    const prometheus = new PrometheusExporter({ port, host: '127.0.0.1' });
    const scraped = new MeterProvider({ readers: [prometheus] });
    instrument(registry, { meterProvider: scraped, tracerProvider });
    await registry.getToken('a');
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    await scraped.shutdown();
    expect(text).toMatch(/^owner_token_request_duration_count\{.*owner_token_registry="crm".*\} 1$/m);
    expect(text).toMatch(/^owner_token_lookups_total\{.*owner_token_lookup_outcome="hit".*\} 0$/m);
    const exported = Object.keys(METRICS).filter((name) => !text.includes(`# TYPE ${name.replaceAll('.', '_')}`));
    expect(exported).toEqual(Object.keys(METRICS).filter((name) => name.startsWith('owner_token.fleet.')));
    expect(text).not.toContain('canary');
  });
});

describe('spans', () => {
  const spanNamed = (name: string) => memory.getFinishedSpans().filter((span) => span.name === name);

  it("are children of the caller's span and parents of the HTTP client's", async () => {
    instrument(registry, { meterProvider, tracerProvider });
    const caller = tracer.startSpan('caller');
    await context.with(trace.setSpan(context.active(), caller), () => registry.getToken('a'));
    const [request] = spanNamed('owner_token.request');
    const [http] = spanNamed('POST');
    expect(request?.kind).toBe(SpanKind.INTERNAL);
    expect(request?.parentSpanContext?.spanId).toBe(caller.spanContext().spanId);
    expect(http?.parentSpanContext?.spanId).toBe(request?.spanContext().spanId);
    expect(request?.attributes).toEqual({
      'owner_token.registry': 'crm',
      'owner_token.owner': registry.fingerprint('a'),
      'owner_token.request.reason': 'absent',
    });
  });

  it('are those of the given registry alone', async () => {
    await using other = new OwnerTokenRegistry({ source, clock, name: 'erp' });
    const stop = instrument(registry, { meterProvider, tracerProvider });
    await other.getToken('a');
    stop();
    expect(spanNamed('owner_token.request')).toEqual([]);
  });

  it('of failed requests have the error code, and no secret', async () => {
    instrument(registry, { meterProvider, tracerProvider });
    await failureFor('revoked');
    const [request] = spanNamed('owner_token.request');
    expect(request?.status).toEqual({ code: SpanStatusCode.ERROR, message: 'refused' });
    expect(request?.attributes).toMatchObject({ 'error.type': 'owner_refused', 'http.response.status_code': 400 });
  });

  it('of refreshes are root spans, linked to the call that started them', async () => {
    instrument(registry, { meterProvider, tracerProvider });
    await registry.getToken('a');
    memory.reset();
    clock.advance(90_000);
    const caller = tracer.startSpan('caller');
    await context.with(trace.setSpan(context.active(), caller), () => registry.getToken('a'));
    await registry.close();
    const [request] = spanNamed('owner_token.request');
    expect(request?.parentSpanContext).toBeUndefined();
    expect(request?.links.map((link) => link.context.spanId)).toEqual([caller.spanContext().spanId]);
    expect(spanNamed('POST')[0]?.parentSpanContext?.spanId).toBe(request?.spanContext().spanId);
  });

  it('end once, and are released when they end', async () => {
    const end = vi.spyOn(Object.getPrototypeOf(tracer.startSpan('any')), 'end');
    const stop = instrument(registry, { meterProvider, tracerProvider });
    await registry.getToken('a');
    await registry.getToken('b');
    await failureFor('revoked');
    stop();
    expect(end.mock.contexts.map((span) => (span as ReadableSpan).name).sort()).toEqual([
      ...Array(3).fill('POST'),
      ...Array(3).fill('owner_token.request'),
    ]);
  });

  it('keep the wrappers of other subscribers around the request, such as a second instrumentation', async () => {
    const seen: unknown[] = [];
    const store = new AsyncLocalStorage<string>();
    const looking: TokenSource = {
      async requestToken(accessKey, request) {
        seen.push(store.getStore(), context.active().getValue(KEY));
        return source.requestToken(accessKey, request);
      },
    };
    await using watched = new OwnerTokenRegistry({ source: looking, clock, name: 'crm' });
    const wrap = (message: unknown) => {
      (message as { run?: unknown }).run = (send: () => unknown) => store.run('mine', send);
    };
    const channel = tracingChannel('owner-token-registry:request');
    channel.start.subscribe(wrap);
    stops.push(() => channel.start.unsubscribe(wrap));
    instrument(watched, { meterProvider, tracerProvider });
    instrument(watched, { meterProvider, tracerProvider });
    await context.with(context.active().setValue(KEY, 'callers'), () => watched.getToken('a'));
    expect(seen).toEqual(['mine', 'callers']);
    const requests = spanNamed('owner_token.request').map((span) => span.spanContext().spanId);
    expect(requests).toHaveLength(2);
    expect(requests).toContain(spanNamed('POST')[0]?.parentSpanContext?.spanId);
  });

  it('end when the request is abandoned, and when reporting stops', async () => {
    const hanging: TokenSource = {
      requestToken: (_, { signal }) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    };
    const stuck = new OwnerTokenRegistry({ source: hanging, name: 'stuck' });
    instrument(stuck, { meterProvider, tracerProvider });
    const waits = stuck.getToken('a').catch(() => {});
    await settle();
    await stuck.close();
    await waits;
    expect(spanNamed('owner_token.request')[0]?.attributes).toMatchObject({ 'error.type': 'abandoned' });
    memory.reset();
    const again = new OwnerTokenRegistry({ source: hanging, name: 'stuck' });
    const stop = instrument(again, { meterProvider, tracerProvider });
    const waitsAgain = again.getToken('a').catch(() => {});
    await settle();
    stop();
    expect(spanNamed('owner_token.request')).toHaveLength(1);
    await again.close();
    await waitsAgain;
  });
});

it('the instrumentation takes its providers from the SDK, which can also disable it', async () => {
  const instrumentation = new OwnerTokenInstrumentation();
  expect(instrumentation).toBeInstanceOf(InstrumentationBase);
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  expect(instrumentation.instrumentationVersion).toBe(version);
  const stopAll = registerInstrumentations({
    instrumentations: [instrumentation],
    meterProvider,
    tracerProvider,
  });
  const stop = instrumentation.observe(registry);
  await registry.getToken('a');
  expect(await series('owner_token.request.duration')).toEqual({ absent: 1 });
  instrumentation.disable();
  await registry.getToken('b');
  instrumentation.enable();
  await registry.getToken('c');
  expect(await series('owner_token.request.duration')).toEqual({ absent: 2 });
  instrumentation.setConfig({ ownerAttribute: 'customer' });
  expect(instrumentation.getConfig()).toEqual({ enabled: true, ownerAttribute: 'customer' });
  await registry.getToken('d');
  expect(await series('owner_token.request.duration')).toMatchObject({ [`${registry.fingerprint('d')} absent`]: 1 });
  stop();
  await registry.getToken('e');
  expect(memory.getFinishedSpans().filter(({ name }) => name === 'owner_token.request')).toHaveLength(3);
  stopAll();
});

it('the instrumentation reports a registry once, even if it is observed twice', async () => {
  const instrumentation = new OwnerTokenInstrumentation();
  instrumentation.setMeterProvider(meterProvider);
  instrumentation.setTracerProvider(tracerProvider);
  instrumentation.observe(registry);
  const stop = instrumentation.observe(registry);
  await registry.getToken('a');
  expect(await series('owner_token.request.duration')).toEqual({ absent: 1 });
  expect(memory.getFinishedSpans().filter(({ name }) => name === 'owner_token.request')).toHaveLength(1);
  stop();
  await registry.getToken('b');
  expect(await series('owner_token.request.duration')).toEqual({ absent: 1 });
});

it('the instrumentation reports nothing while its configuration disables it', async () => {
  const instrumentation = new OwnerTokenInstrumentation({ enabled: false });
  instrumentation.setMeterProvider(meterProvider);
  stops.push(instrumentation.observe(registry));
  await registry.getToken('a');
  expect(await series('owner_token.request.duration')).toEqual({});
  instrumentation.enable();
  await registry.getToken('b');
  expect(await series('owner_token.request.duration')).toEqual({ absent: 1 });
});

it.each([
  [() => instrumentOf({} as never, { meterprovider: 1 } as never), 'instrument', 'meterprovider: unknown option'],
  [() => registerMetrics(promClient, [{}] as never, { fleet: 1 } as never), 'registerMetrics', 'fleet: unknown option'],
  [
    () => new OwnerTokenInstrumentation().observe({} as never, { nane: 1 } as never),
    'observe',
    'nane: unknown option; expected one of name',
  ],
])('instrument() and the instrumentation list every wrong argument: %#', (call, of, problem) => {
  expect(call).toThrow(`${of}: invalid options:\n  - ${problem}`);
  expect(call).toThrow('registry: expected an OwnerTokenRegistry');
});
