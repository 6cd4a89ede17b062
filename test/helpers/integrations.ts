/** Two integrations, and a workload that drives one through a scenario on the sandbox's clock. */

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

/** A map and `fetch`: no single-flight, no deadline, no backoff, no look at what the resource says. */
export function naiveIntegration({ url, clientId, clientSecret, clock }: Service): Integration {
  const held = new Map<string, { token: string; expiresAtMs: number }>();
  const request = async (accessKey: string) => {
    const answer = await fetch(`${url}/auth/v1/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        grant_type: 'client_credentials',
        client_id: clientId,
        client_secret: clientSecret(),
        appliance_owner_scope: accessKey,
      }),
    });
    const { access_token, expires_in } = (await answer.json()) as { access_token: string; expires_in: number };
    if (!answer.ok) throw new Error(`refused with ${answer.status}`);
    return { token: access_token, expiresAtMs: clock.now() + expires_in * 1000 };
  };
  return {
    async call(accessKey, owner) {
      let entry = held.get(accessKey);
      if (!entry || entry.expiresAtMs <= clock.now()) {
        entry = await request(accessKey);
        held.set(accessKey, entry);
      }
      const headers = { authorization: `Bearer ${entry.token}`, 'x-expected-owner': owner };
      const answer = await fetch(`${url}/echo`, { headers });
      await answer.body?.cancel();
      if (answer.status === 401) held.delete(accessKey);
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
export class Workload {
  readonly #integration: Integration;
  readonly owners: readonly Pick<SandboxOwner, 'id' | 'accessKey'>[];
  readonly #calling = new Map<string, number>();
  #ended = 0;

  constructor(integration: Integration, owners: Workload['owners']) {
    this.#integration = integration;
    this.owners = owners;
  }

  /** Every idle caller makes a call. Resolves when only time can change anything. */
  async step(): Promise<void> {
    for (const { id, accessKey } of this.owners) {
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

const STEP_MS = 500;

/** When the operator gives a rotated secret to the integration. */
const NEW_SECRET_MS = 20_000;

/** A sandbox whose clock moves by calls alone. */
export interface Stage extends Pick<Service, 'url' | 'clientId' | 'clock'> {
  readonly owners: Workload['owners'];
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
