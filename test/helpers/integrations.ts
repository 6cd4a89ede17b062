/** Integrations good and bad, and a workload that drives one through a scenario on the sandbox's clock. */

import pLimit from 'p-limit';
import { type Clock, OwnerTokenRegistry, TokenEndpoint } from '../../src/index.ts';
import type { SandboxOwner } from '../../src/sandbox/index.ts';

/** The settings of an integration. */
export interface Service {
  readonly url: string;
  readonly clientId: string;
  readonly clientSecret: () => string;
  readonly clock: Clock;
}

export interface Integration {
  /** Calls the resource for an owner. */
  call(accessKey: string, owner: string): Promise<void>;
  close(): Promise<void>;
}

/** Uses the library as its documentation says. */
export function registryIntegration({ url, clientId, clientSecret, clock }: Service): Integration {
  const source = new TokenEndpoint({ baseUrl: url, clientId, clientSecret, clock });
  const registry = new OwnerTokenRegistry({ source, clock });
  return {
    async call(accessKey, owner) {
      const fetchAsOwner = registry.ownerFetch(accessKey);
      const answer = await fetchAsOwner(`${url}/echo`, { headers: { 'x-expected-owner': owner } });
      const { wrongOwner } = (await answer.json()) as { wrongOwner?: true };
      const token = registry.peek(accessKey);
      if (wrongOwner && token) registry.reject(accessKey, token);
    },
    close: () => registry.close({ timeoutMs: 0 }),
  };
}

/** What an integration written by hand may get wrong. */
export type Defect =
  | 'no back-off'
  | 'ignores Retry-After'
  | 'stops for all owners'
  | 'mixes up owners'
  | 'never stops using an old secret'
  | 'no cache'
  | 'no deadline';

const FIRST_PAUSE_MS = 1000;
const DEADLINE_MS = 10_000;

/** How long something must not be requested, and how often in a row it has failed. */
interface Pause {
  readonly failures: number;
  readonly untilMs: number;
}

/** Written by hand with care: single-flight, a deadline, backoff for each owner and for the client, few requests at once. */
export function handwrittenIntegration(service: Service, defect?: Defect): Integration {
  const { url, clientId, clientSecret, clock } = service;
  const firstSecret = clientSecret();
  const cache = new Map<string, { token: string; expiresAtMs: number }>();
  const inFlight = new Map<string, Promise<string>>();
  const pauses = new Map<string, Pause>();
  const CLIENT = 'client';
  const limit = pLimit(16);
  /** The bug that mixes up owners: a header that all calls share, as with the defaults of some HTTP clients. */
  const shared = { authorization: '' };

  /** @param before failures before the request was sent: those in flight together count as one. */
  const pause = (who: string, before: number, retryAfterSeconds: number) => {
    const failures = before + 1;
    const backoffMs = defect === 'no back-off' ? 0 : FIRST_PAUSE_MS * 2 ** (failures - 1);
    const toldMs = defect === 'ignores Retry-After' ? 0 : retryAfterSeconds * 1000;
    pauses.set(who, { failures, untilMs: clock.now() + Math.max(backoffMs, toldMs) });
  };
  const checkPauses = (accessKey: string) => {
    for (const who of [CLIENT, accessKey]) {
      if (clock.now() < (pauses.get(who)?.untilMs ?? 0)) throw new Error('paused');
    }
    // One request tries whether the client is accepted again; the others wait for it.
    const refused = pauses.get(CLIENT);
    if (refused && defect !== 'no back-off') pauses.set(CLIENT, { ...refused, untilMs: clock.now() + DEADLINE_MS });
  };

  const request = async (accessKey: string): Promise<string> => {
    checkPauses(accessKey);
    const failuresOf = (who: string) => pauses.get(who)?.failures ?? 0;
    const [ownFailures, clientFailures] = [failuresOf(accessKey), failuresOf(CLIENT)];
    const deadline = new AbortController();
    const cancel = clock.setTimeout?.(() => deadline.abort(), defect === 'no deadline' ? 3_600_000 : DEADLINE_MS);
    try {
      const answer = await fetch(`${url}/auth/v1/token`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          grant_type: 'client_credentials',
          client_id: clientId,
          client_secret: defect === 'never stops using an old secret' ? firstSecret : clientSecret(),
          appliance_owner_scope: accessKey,
        }),
        signal: deadline.signal,
      });
      if (!answer.ok) {
        const retryAfterSeconds = Number(answer.headers.get('retry-after') ?? 0);
        const isOfAll = answer.status === 401 || (answer.status === 503 && defect === 'stops for all owners');
        if (isOfAll) pause(CLIENT, clientFailures, 0);
        else pause(accessKey, ownFailures, retryAfterSeconds);
        throw new Error(`refused with ${answer.status}`);
      }
      const { access_token: token, expires_in } = (await answer.json()) as { access_token: string; expires_in: number };
      pauses.delete(accessKey);
      pauses.delete(CLIENT);
      cache.set(accessKey, { token, expiresAtMs: clock.now() + expires_in * 1000 });
      return token;
    } catch (error) {
      if (deadline.signal.aborted) pause(accessKey, ownFailures, 0);
      throw error;
    } finally {
      cancel?.();
    }
  };

  const tokenFor = (accessKey: string): Promise<string> | string => {
    const held = cache.get(accessKey);
    if (held && clock.now() < held.expiresAtMs && defect !== 'no cache') return held.token;
    const joined = inFlight.get(accessKey);
    if (joined) return joined;
    const sent = limit(() => request(accessKey)).finally(() => inFlight.delete(accessKey));
    inFlight.set(accessKey, sent);
    return sent;
  };

  return {
    async call(accessKey, owner) {
      const token = await tokenFor(accessKey);
      const headers = defect === 'mixes up owners' ? shared : { authorization: '' };
      headers.authorization = `Bearer ${token}`;
      // The body of a request, say, takes a moment to make.
      await Promise.resolve();
      const answer = await fetch(`${url}/echo`, { headers: { ...headers, 'x-expected-owner': owner } });
      const { wrongOwner } = (await answer.json()) as { wrongOwner?: true };
      const isUseless = answer.status === 401 || wrongOwner;
      if (isUseless && cache.get(accessKey)?.token === token) cache.delete(accessKey);
    },
    // What hangs ends with the sandbox.
    close: async () => {},
  };
}

/** Concurrent callers for each owner; each makes one call after another. */
const CALLERS = 2;

/** No call has ended for this many turns of the event loop: all that remain wait for the clock. */
const QUIET_TURNS = 25;

/** The callers of all owners. */
class Workload {
  readonly #integration: Integration;
  readonly #owners: readonly Pick<SandboxOwner, 'id' | 'accessKey'>[];
  readonly #calling = new Map<string, number>();
  #ended = 0;

  constructor(integration: Integration, owners: readonly Pick<SandboxOwner, 'id' | 'accessKey'>[]) {
    this.#integration = integration;
    this.#owners = owners;
  }

  /** Every idle caller makes a call. Resolves when only time can change anything. */
  async step(): Promise<void> {
    for (const { id, accessKey } of this.#owners) {
      while ((this.#calling.get(id) ?? 0) < CALLERS) this.#call(id, accessKey);
    }
    for (let [turns, ended] = [0, this.#ended]; turns < QUIET_TURNS; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (ended === this.#ended) continue;
      [turns, ended] = [0, this.#ended];
    }
  }

  #call(id: string, accessKey: string): void {
    this.#calling.set(id, (this.#calling.get(id) ?? 0) + 1);
    void this.#integration
      .call(accessKey, id)
      // A backend would answer its own caller with an error.
      .catch(() => {})
      .then(() => {
        this.#ended++;
        this.#calling.set(id, (this.#calling.get(id) ?? 0) - 1);
      });
  }
}

const STEP_MS = 1000;

/** When the operator gives a rotated secret to the integration. */
const NEW_SECRET_MS = 20_000;

/** A sandbox whose clock moves by calls alone. */
export interface Stage extends Pick<Service, 'url' | 'clientId' | 'clock'> {
  readonly owners: readonly Pick<SandboxOwner, 'id' | 'accessKey'>[];
  /** Moves the sandbox's clock, and `clock` if that is another. */
  advance(ms: number): void | Promise<void>;
  /** The secret that the sandbox accepts now. */
  secret(): string | Promise<string>;
}

/** Lets an integration work while a scenario runs, and gives the scenario's result. `start` begins it. */
export async function resultOf<Result>(
  make: (service: Service) => Integration,
  stage: Stage,
  start: () => Promise<Result>,
): Promise<Result> {
  let secret = await stage.secret();
  const integration = make({ ...stage, clientSecret: () => secret });
  const workload = new Workload(integration, stage.owners);
  await workload.step();
  let running = true;
  const result = start().finally(() => {
    running = false;
  });
  for (let ms = 0; running; ms += STEP_MS) {
    if (ms >= NEW_SECRET_MS) secret = await stage.secret();
    await workload.step();
    await stage.advance(STEP_MS);
  }
  await integration.close();
  return result;
}
