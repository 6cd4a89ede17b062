/**
 * Sources that request tokens with an HTTP client of their own: their errors are read, so in an outage they make hardly
 * more requests than a `TokenEndpoint`.
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import axios from 'axios';
import got from 'got';
import ky from 'ky';
import { allowInsecureRequests, ClientSecretPost, Configuration, clientCredentialsGrant } from 'openid-client';
import { describe, expect, it } from 'vitest';
import { OwnerTokenRegistry, TokenEndpoint, type TokenSource } from '../../src/index.ts';
import { examplesOf } from '../helpers/examples.ts';
import { type Answer, json, LoopbackService, status } from '../helpers/loopback-service.ts';
import { asTimePasses, ManualClock } from '../helpers/manual-clock.ts';
import { ROOT } from '../helpers/source-files.ts';

/** The template of the docs, as it is there. */
const [template] = examplesOf('docs/options.md').filter(({ code }) => code.includes('function ownSource'));
const file = join(ROOT, 'reports/own-source.ts');
mkdirSync(join(ROOT, 'reports'), { recursive: true });
writeFileSync(file, `${template?.code}\nexport { ownSource };\n`);
const { ownSource } = (await import(file)) as {
  ownSource(options: { baseUrl: string; clientId: string; clientSecret: string }): TokenSource;
};

const CREDENTIALS = { clientId: 'the-client', clientSecret: 'the-secret' };

const fieldsFor = (accessKey: string) => ({
  grant_type: 'client_credentials',
  client_id: CREDENTIALS.clientId,
  client_secret: CREDENTIALS.clientSecret,
  appliance_owner_scope: accessKey,
});

interface Issued {
  access_token: string;
}

/** A source with each client, as one writes it: whatever the client throws is passed on. */
const SOURCES: Record<string, (baseUrl: string) => TokenSource> = {
  axios: (url) => ({
    async requestToken(accessKey, { signal }) {
      const { data } = await axios.post<Issued>(url, fieldsFor(accessKey), { signal, maxRedirects: 0 });
      return { token: data.access_token };
    },
  }),
  got: (url) => ({
    async requestToken(accessKey, { signal }) {
      const options = { json: fieldsFor(accessKey), signal, retry: { limit: 0 }, followRedirect: false };
      return { token: (await got.post(url, options).json<Issued>()).access_token };
    },
  }),
  ky: (url) => ({
    async requestToken(accessKey, { signal }) {
      const options = { json: fieldsFor(accessKey), signal, retry: 0, redirect: 'manual' } as const;
      return { token: (await ky.post(url, options).json<Issued>()).access_token };
    },
  }),
  'openid-client': (url) => {
    const server = { issuer: url, token_endpoint: url };
    const config = new Configuration(server, CREDENTIALS.clientId, {}, ClientSecretPost(CREDENTIALS.clientSecret));
    allowInsecureRequests(config);
    return {
      async requestToken(accessKey) {
        const { access_token } = await clientCredentialsGrant(config, { appliance_owner_scope: accessKey });
        return { token: access_token };
      },
    };
  },
  'the template of the docs': (baseUrl) => ownSource({ baseUrl, ...CREDENTIALS }),
};

const FAULTS: Record<string, Answer> = {
  'a wrong secret': json(401, { error: 'invalid_client', error_description: 'unknown client' }),
  '503 to everybody': json(503, { error: 'temporarily_unavailable' }),
  '429 with Retry-After': json(429, {}, { 'retry-after': '10' }),
};

const OWNERS = 200;
const ROUNDS = 6;
const ROUND_MS = 1_000;

/** The requests that arrive while every owner calls once a second, six times. */
async function requestsOf(make: (url: string, clock: ManualClock) => TokenSource, answer: Answer): Promise<number> {
  await using service = await LoopbackService.start();
  service.always(answer);
  const clock = new ManualClock();
  // The jitter in the middle of its range: the counts are exact.
  await using registry = new OwnerTokenRegistry({ source: make(service.url, clock), clock, random: () => 0.5 });
  for (let round = 0; round < ROUNDS; round++) {
    const startMs = clock.monotonic();
    const calls = Array.from({ length: OWNERS }, (_, owner) => registry.getToken(`owner ${owner}`));
    await asTimePasses(Promise.allSettled(calls), clock, 50, registry);
    clock.advance(Math.max(0, ROUND_MS - (clock.monotonic() - startMs)));
  }
  return service.calls.length;
}

describe.each(Object.entries(FAULTS))('with %s', (_fault, answer) => {
  const ofEndpoint = requestsOf((baseUrl, clock) => new TokenEndpoint({ baseUrl, ...CREDENTIALS, clock }), answer);

  it.each(Object.entries(SOURCES))(
    'a source with %s makes at most 1.5 times the requests of a TokenEndpoint',
    async (_name, make) => {
      const [count, most] = [await requestsOf(make, answer), 1.5 * (await ofEndpoint)];
      expect(count).toBeLessThanOrEqual(most);
      expect(count).toBeGreaterThan(0);
    },
  );
});

describe('the template of the docs', () => {
  async function codeWith(answer: Answer): Promise<unknown> {
    await using service = await LoopbackService.start();
    service.always(answer);
    await using registry = new OwnerTokenRegistry({ source: ownSource({ baseUrl: service.url, ...CREDENTIALS }) });
    const outcome = await registry.getToken('the key').catch((error: unknown) => error);
    expect(service.calls).toHaveLength(1);
    return outcome;
  }

  it('gives a token', async () => {
    expect(await codeWith(json(200, { access_token: 't', expires_in: 60 }))).toMatchObject({ value: 't' });
  });

  it('follows no redirect', async () => {
    await using elsewhere = await LoopbackService.start();
    const redirect = status(307, '', { location: `${elsewhere.url}/auth/v1/token` });
    expect(await codeWith(redirect)).toMatchObject({ code: 'redirect_refused', status: 307 });
    expect(elsewhere.calls).toEqual([]);
  });

  it.each<[string, Answer, object]>([
    ['a 429', status(429, 'slow down', { 'retry-after': '7' }), { code: 'rate_limited', retryAfterMs: 7_000 }],
    ['a wrong secret', json(401, { error: 'invalid_client' }), { code: 'client_refused' }],
    ['a wrong access key', json(400, { error: 'invalid_grant' }), { code: 'owner_refused' }],
    ['an HTML page with a 403', status(403, '<html>blocked</html>'), { code: 'invalid_response', retryable: true }],
    ['an HTML page with a 200', status(200, '<html>log in</html>'), { code: 'invalid_response', retryable: true }],
    ['no token', json(200, {}), { code: 'invalid_response' }],
    ['an outage', status(502, '<html>bad gateway</html>'), { code: 'endpoint_unavailable' }],
  ])('reports %s with the right error code', async (_what, answer, expected) => {
    expect(await codeWith(answer)).toMatchObject(expected);
  });
});
