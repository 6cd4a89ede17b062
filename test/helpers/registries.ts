/** Factories and helpers for the tests of the guarantees: registries on scripted sources and on real sockets. */

import { OwnerTokenError, OwnerTokenRegistry, type OwnerTokenRegistryOptions, TokenEndpoint } from '../../src/index.ts';
import type { LoopbackService } from './loopback-service.ts';
import { ManualClock, settle } from './manual-clock.ts';
import { ScriptedSource } from './scripted-source.ts';

type Options = Partial<Omit<OwnerTokenRegistryOptions, 'clock'>>;
type EndpointOptions = Partial<ConstructorParameters<typeof TokenEndpoint>[0]>;

/** A registry with a manual clock and a scripted source. All jitter is 0.5. */
export function scripted(options: Options = {}, source = new ScriptedSource()) {
  const clock = new ManualClock();
  const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5, ...options });
  return { clock, source, registry };
}

/** A registry whose source answers at once, with tokens of 100 s: due for a refresh after about 80, past their end after 95. */
export const answering = (options: Options = {}) => scripted(options, ScriptedSource.answering(100));

/** A registry and endpoint with one manual clock, and a service on a real socket. */
export function overHttp(service: LoopbackService, options: Options = {}, endpointOptions: EndpointOptions = {}) {
  const clock = new ManualClock();
  const client = { clientId: 'the-client', clientSecret: 'the-secret' };
  const source = new TokenEndpoint({ baseUrl: service.url, ...client, clock, ...endpointOptions });
  const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5, ...options });
  return { clock, registry };
}

/** An access key per number. */
export const keys = (count: number) => Array.from({ length: count }, (_, index) => `key-${index + 1}`);

/** New owners call one after the other, and each gets a token after so long. */
export async function issueAfter(tookMs: number, count: number, scene: ReturnType<typeof scripted>) {
  const { registry, clock, source } = scene;
  for (let n = 0; n < count; n++) {
    const call = registry.getToken(`owner ${source.calls.length}`);
    await settle();
    clock.advance(tookMs);
    source.call(-1).succeed({ response: { expires_in: 3600 } });
    await call;
  }
}

/** Makes `count` concurrent calls, and waits for all. */
export function callAtOnce(count: number, registry: OwnerTokenRegistry, accessKey: string) {
  return Promise.allSettled(Array.from({ length: count }, () => registry.getToken(accessKey)));
}

/** Closes a registry whose source ignores its signal. */
export async function shut(registry: OwnerTokenRegistry, clock: ManualClock): Promise<void> {
  const closed = registry.close({ timeoutMs: 1 });
  for (let part = 0; part < 2; part++) {
    await settle();
    clock.advance(1);
  }
  await closed;
}

/** The `OwnerTokenError` that a promise rejects with; throws if it resolves or rejects with anything else. */
export async function errorOf(promise: Promise<unknown>): Promise<OwnerTokenError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (error instanceof OwnerTokenError) return error;
  throw new Error(error === undefined ? 'it was not rejected' : 'it was rejected with something else', {
    cause: error,
  });
}

/** The outcomes of many calls: the distinct tokens, and a count per error code. */
export function tally(outcomes: PromiseSettledResult<{ value: string }>[]) {
  const tokens = new Set<string>();
  const codes: Record<string, number> = {};
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') tokens.add(outcome.value.value);
    else codes[outcome.reason.code ?? outcome.reason] = (codes[outcome.reason.code ?? outcome.reason] ?? 0) + 1;
  }
  return { tokens: [...tokens], codes };
}

/** Yields to the event loop until the condition holds, for events of real sockets. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}

/** Whether a promise has settled once everything that is ready has run. */
export async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const mark = () => {
    settled = true;
  };
  promise.then(mark, mark);
  await settle();
  return settled;
}
