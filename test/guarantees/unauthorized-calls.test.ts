/** F. Rejections, over real sockets: the token endpoint and the resources of one service, and `ownerFetch` between. */

import { afterEach, describe, expect, it } from 'vitest';
import { OwnerTokenRegistry, type OwnerTokenRegistryOptions, TokenEndpoint } from '../../src/index.ts';
import { type Issuing, IssuingService } from '../helpers/issuing-service.ts';
import { json, LoopbackService, token } from '../helpers/loopback-service.ts';
import { ManualClock } from '../helpers/manual-clock.ts';
import { errorOf, keys, until } from '../helpers/registries.ts';
import { ResourceService } from '../helpers/resource-service.ts';
import { seeded } from '../helpers/seeded.mjs';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

const CLIENT = { clientId: 'the-client', clientSecret: 'the-secret' };

/** A registry before a whole service, both on one manual clock. */
async function withService(issuing: Omit<Issuing, 'now'> = {}, options: Partial<OwnerTokenRegistryOptions> = {}) {
  const clock = new ManualClock();
  const service = await IssuingService.start({ ...issuing, now: () => clock.now() });
  const source = new TokenEndpoint({ baseUrl: service.url, ...CLIENT, clock });
  const registry = new OwnerTokenRegistry({ source, clock, random: seeded(1), ...options });
  cleanups.push(
    () => registry.close(),
    () => service[Symbol.asyncDispose](),
  );
  return { clock, service, registry };
}

/** A registry whose token endpoint answers by hand, and resources that accept what the test says. */
async function byHand(accepts: (token: string) => boolean) {
  const clock = new ManualClock();
  const endpoint = await LoopbackService.start();
  const resources = await ResourceService.start(({ token = '' }, response) => {
    response.writeHead(accepts(token) ? 200 : 401).end();
  });
  const source = new TokenEndpoint({ baseUrl: endpoint.url, ...CLIENT, clock, timeoutMs: 600_000 });
  const calls = { allowedOrigins: [resources.origin] };
  const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5, calls });
  cleanups.push(
    () => registry.close(),
    () => endpoint.close(),
    () => resources[Symbol.asyncDispose](),
  );
  return { clock, endpoint, resources, registry, source };
}

/** The answer's status, its body read. */
async function statusOf(call: Promise<Response>): Promise<number> {
  const response = await call;
  await response.arrayBuffer();
  return response.status;
}

const times = <T>(count: number, make: () => T): T[] => Array.from({ length: count }, make);

describe('F2', () => {
  it('1,000 concurrent 401s for one token: one POST, and every call succeeds at its second try', async () => {
    const { service, registry } = await withService();
    const call = registry.ownerFetch('key');
    expect(await statusOf(call(service.url))).toBe(200);
    service.revoke('key');
    const statuses = await Promise.all(times(1_000, () => statusOf(call(`${service.url}/resource`))));
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(service.posts).toBe(2);
    expect(service).toMatchObject({ refused: 1_000, accepted: 1_001 });
  });
});

describe('F3', () => {
  const same = token({ access_token: 'the-same' });

  it('a call is attempted at most twice: if the service issues the refused token again, it returns the 401', async () => {
    const { endpoint, registry, resources } = await byHand(() => false);
    endpoint.always(same);
    const call = registry.ownerFetch('key');
    expect(await statusOf(call(resources.origin))).toBe(401);
    expect(resources.tokens).toEqual(['the-same', 'the-same']);
    expect(await statusOf(call(resources.origin))).toBe(401);
    expect(resources.tokens).toHaveLength(4);
    expect(endpoint.calls).toHaveLength(2);
  });
});

describe('F5', () => {
  it('a source that holds a new token back until it is known: no call is refused', async () => {
    const clock = new ManualClock();
    await using service = await IssuingService.start({ lagMs: 2_000, lifetimeSeconds: 60, now: () => clock.now() });
    const endpoint = new TokenEndpoint({ baseUrl: service.url, ...CLIENT, clock });
    let holding = false;
    const source = {
      origin: endpoint.origin,
      async requestToken(...args: Parameters<TokenEndpoint['requestToken']>) {
        const grant = await endpoint.requestToken(...args);
        holding = true;
        await new Promise<void>((resolve) => clock.setTimeout(resolve, 2_000));
        return grant;
      },
    };
    await using registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5 });
    const call = registry.ownerFetch('key');
    const first = statusOf(call(service.url));
    await until(() => holding);
    clock.advance(2_000);
    expect(await first).toBe(200);
    for (let second = 0; second < 120; second++) {
      expect(await statusOf(call(service.url))).toBe(200);
      clock.advance(1_000);
    }
    expect(service.refused).toBe(0);
  });
});

describe('F6', () => {
  it('a 401 of the token endpoint is the failure of the call, and never re-enters it', async () => {
    for (const ownFetch of [undefined, fetch]) {
      const endpoint = await LoopbackService.start();
      endpoint.always(json(401, { error: 'invalid_client' }));
      const transport = ownFetch && { fetch: ownFetch };
      const source = new TokenEndpoint({ baseUrl: endpoint.url, ...CLIENT, ...transport });
      const registry = new OwnerTokenRegistry({ source });
      cleanups.push(
        () => registry.close(),
        () => endpoint.close(),
      );
      const error = await errorOf(registry.ownerFetch('key')(`${endpoint.url}/resource`));
      expect(error).toMatchObject({ code: 'client_refused', status: 401 });
      expect(endpoint.calls.map(({ path }) => path)).toEqual(['/auth/v1/token']);
      expect(registry.stats().rejections).toBe(0);
    }
  });
});

describe('F7', () => {
  it('under load, with a service that revokes the old token at each new one: no call lost, two POSTs a refresh', async () => {
    const { service, registry, clock } = await withService({ revokePrevious: true, lifetimeSeconds: 60 });
    const owners = keys(5);
    const statuses = new Map<number, number>();
    const under = async (owner: string) => {
      const status = await statusOf(registry.ownerFetch(owner)(service.url));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    };
    for (let second = 0; second < 180; second++) {
      await Promise.all(owners.flatMap((owner) => times(8, () => under(owner))));
      clock.advance(1_000);
    }
    expect(Object.fromEntries(statuses)).toEqual({ 200: 180 * 5 * 8 });
    expect(service.refused).toBeGreaterThan(0);
    // Three lifetimes, refreshed after 0.6 of one at the earliest, and each time a call in between may cost one more.
    expect(service.posts).toBeLessThanOrEqual(5 * (1 + 2 * 5));
  });
});
