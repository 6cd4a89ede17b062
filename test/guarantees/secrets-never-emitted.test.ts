/** G. Secrets. What carries them and how they are kept from each carrier: `test/secrets.test.ts`. */

import { describe, expect, it } from 'vitest';
import {
  expiresIn,
  firstKnown,
  fixedLifetime,
  learnedLifetime,
  OwnerTokenError,
  OwnerTokenRegistry,
  TokenEndpoint,
} from '../../src/index.ts';
import { REGISTRY_OPTIONS } from '../../src/registry/options.ts';
import { Emissions, leaksIn, SECRETS } from '../helpers/canaries.ts';
import {
  type Answer,
  drip,
  end,
  head,
  json,
  LoopbackService,
  raw,
  reset,
  silence,
  status,
  thenEnd,
  thenReset,
  token,
} from '../helpers/loopback-service.ts';
import { asTimePasses, ManualClock } from '../helpers/manual-clock.ts';

const { clientSecret, accessKey, otherAccessKey } = SECRETS;
const html = (code: number, text: string, headers = {}) =>
  status(code, text, { 'content-type': 'text/html', ...headers });
const good = token({ access_token: SECRETS.token });

/** Every way in which these tests let the service answer, with the request and a token in whatever can hold them. */
const ANSWERS: Record<string, Answer> = {
  good,
  'an error with the request': (call) =>
    json(400, { error: 'invalid_grant', error_description: call.body, request: call.fields })(call),
  'a refusal of the client': json(401, { error: 'invalid_client' }),
  'an error that is the secret': (call) => json(401, { error: call.fields.client_secret })(call),
  'an error that is the key': (call) => json(400, { error: call.fields.appliance_owner_scope })(call),
  'a 500 with the request as JSON': (call) => json(500, call.fields)(call),
  'a 500 with the request in HTML': (call) => html(500, `<pre>${call.body}</pre>`)(call),
  'a 200 with the request in HTML': (call) => html(200, `<pre>${call.body}</pre>`)(call),
  'a 200 with the request and no token': (call) => json(200, call.fields)(call),
  'a 200 with a token that no header can carry': json(200, { access_token: `${SECRETS.token}\r\nx: y` }),
  'a 200 with a token in the wrong place': json(200, { token: SECRETS.token, access_token: [SECRETS.token] }),
  'a token type that is the token': json(200, { access_token: `${SECRETS.token}2`, token_type: `${SECRETS.token} x` }),
  'a token type that is the secret': (call) =>
    json(200, { access_token: `${SECRETS.token}3`, token_type: call.fields.client_secret })(call),
  'a lifetime that is the token': json(200, { access_token: SECRETS.token, expires_in: SECRETS.token }),
  'cut JSON': status(200, `{"access_token":"${SECRETS.token}"`),
  'headers with everything': (call) =>
    json(403, {}, { 'x-request': call.body, 'www-authenticate': SECRETS.token })(call),
  'a status line with the secret': (call) => raw(`HTTP/1.1 500 ${call.body}\r\ncontent-length: 0\r\n\r\n`)(call),
  'a redirect to where the secret is part of the address': (call) =>
    status(307, '', { location: `http://127.0.0.1:1/${call.fields.client_secret}?k=${accessKey}` })(call),
  '429 with the request for a date': (call) => json(429, {}, { 'retry-after': accessKey })(call),
  garbage: (call) => raw(`${call.body}\r\n\r\n`)(call),
  'cut in the body': thenEnd(raw(head(200, { 'content-length': '5000' }), `{"access_token":"${SECRETS.token}"`)),
  'reset in the body': thenReset(raw(head(200, { 'content-length': '5000' }), `{"access_token":"${SECRETS.token}"`)),
  'wrong gzip': status(200, SECRETS.token, { 'content-encoding': 'gzip' }),
  'too much': (call) => status(200, JSON.stringify({ access_token: SECRETS.token, pad: call.body.repeat(800) }))(call),
  reset: reset(),
  end: end(),
};

function client(service: { url: string }, emissions: Emissions, clock?: ManualClock) {
  const source = new TokenEndpoint({
    baseUrl: service.url,
    clientId: 'the-client',
    clientSecret,
    ...(clock && { clock }),
  });
  return new OwnerTokenRegistry({
    source,
    logger: emissions.logger,
    pauses: { owner: NO_PAUSE, client: NO_PAUSE, endpoint: NO_PAUSE },
    ...(clock && { clock }),
  });
}
const NO_PAUSE = { baseMs: 1, capMs: 1 };

describe('G1', () => {
  it('planted secrets pass through every kind of answer, and appear in nothing that is emitted', async () => {
    await using service = await LoopbackService.start();
    using emissions = new Emissions();
    const clock = new ManualClock();
    const registry = client(service, emissions, clock);
    let rounds = 0;
    for (const answer of [...Object.values(ANSWERS), good]) {
      service.always(answer);
      for (const key of [accessKey, otherAccessKey]) {
        await emissions.outcome(registry.getToken(key));
        await emissions.outcome(registry.getToken(key));
        const held = registry.peek(key);
        if (held && rounds++ % 2 === 0) registry.reject(key, held);
        else registry.forget(key);
        clock.advance(3_600_000);
        emissions.add(registry.describe(key));
        emissions.add(registry.fingerprint(key));
      }
      emissions.add(registry.stats());
    }
    await emissions.outcome(asTimePasses(registry.warmUp([accessKey, '', otherAccessKey]), clock, 500, registry));
    registry.forget(accessKey);
    for (const answer of [ANSWERS['a 500 with the request as JSON'] as Answer, good]) {
      service.always(answer);
      clock.advance(3_600_000);
      await emissions.outcome(asTimePasses(registry.getToken(accessKey), clock, 500, registry));
    }
    service.always(ANSWERS['a 500 with the request as JSON'] as Answer);
    registry.forgetAll();
    await emissions.outcome(asTimePasses(registry.warmUp([accessKey, otherAccessKey]), clock, 500, registry));
    emissions.add(registry);
    await registry.close();
    await emissions.outcome(registry.getToken(accessKey));
    expect(service.calls.length).toBeGreaterThan(40);
    // What was to be seen was seen, and the secrets did pass by.
    expect([...emissions.codes].sort()).toEqual(
      [
        'client_refused',
        'closed',
        'endpoint_unavailable',
        'invalid_response',
        'owner_refused',
        'rate_limited',
        'redirect_refused',
      ].sort(),
    );
    expect([...emissions.events]).toEqual(
      expect.arrayContaining([
        'request.sent',
        'request.succeeded',
        'request.failed',
        'token.rejected',
        'pause.began',
        'pause.lifted',
        'lifetime.unknown',
        'scheme.unknown',
        'registry.closed',
      ]),
    );
    expect(service.calls.every((call) => leaksIn(call.body).length >= 2)).toBe(true);
    expect(emissions.leaks).toEqual([]);
  });

  it('planted secrets are not emitted from a request that hangs and times out either', async () => {
    await using service = await LoopbackService.start();
    using emissions = new Emissions();
    const clock = new ManualClock();
    const registry = client(service, emissions, clock);
    service.next(silence(), drip(`${head(200, {})}{"access_token":"${SECRETS.token}`));
    for (const [index, key] of [accessKey, otherAccessKey].entries()) {
      const waiting = registry.getToken(key);
      emissions.add(waiting);
      await service.arrived(index + 1);
      clock.advance(10_000);
      await emissions.outcome(waiting);
    }
    const caller = new AbortController();
    service.always(silence());
    clock.advance(10_000);
    const left = registry.getToken(accessKey, { signal: caller.signal });
    caller.abort();
    await emissions.outcome(left);
    emissions.add(registry);
    await registry.close();
    expect(emissions.leaks).toEqual([]);
  });

  it('lines with planted secrets would be found, if there were any', () => {
    using emissions = new Emissions();
    emissions.logger.info({ event: 'x', key: accessKey });
    emissions.add(new Error(`no ${Buffer.from(clientSecret).toString('base64')}`));
    expect(emissions.leaks.length).toBeGreaterThan(1);
  });
});

describe('G2', () => {
  it('functions of the user throw what they were given: none of it is passed on', async () => {
    using emissions = new Emissions();
    const boast = (given: unknown): never => {
      const text = `${accessKey} ${clientSecret} ${JSON.stringify(given)}`;
      throw Object.assign(new Error(text, { cause: new Error(text) }), {
        name: text,
        code: text,
        body: given,
        stack: text,
      });
    };
    await using service = await LoopbackService.start();
    service.always(token({ access_token: SECRETS.token }));
    const options = { baseUrl: service.url, clientId: 'the-client', clientSecret };
    const sources = [
      new TokenEndpoint({ ...options, parseResponse: boast }),
      new TokenEndpoint({ ...options, clientSecret: () => boast(clientSecret) }),
      new TokenEndpoint({ ...options, tokenRequest: boast }),
      new TokenEndpoint({ ...options, fetch: async (...args) => boast(args) }),
      new TokenEndpoint({
        ...options,
        baseUrl: `${service.url}/x`,
        parseResponse: () => boast('y'),
        classifyFailure: boast,
      }),
      { requestToken: async (key: string) => boast(key) },
      {
        requestToken: async (key: string) => {
          throw new OwnerTokenError('owner_refused', `the vault has no ${key}`, { cause: boastful(key) });
        },
      },
      {
        requestToken: async (key: string) => {
          throw key;
        },
      },
    ];
    for (const source of sources) {
      const expiry = { lifetimeMs: boast };
      for (const registry of [
        new OwnerTokenRegistry({ source, logger: emissions.logger }),
        new OwnerTokenRegistry({ source, logger: emissions.logger, expiry, ownerLabel: (key) => `label of ${key}` }),
      ]) {
        await emissions.outcome(registry.getToken(accessKey));
        await emissions.outcome(registry.getToken(accessKey));
        emissions.add(registry.describe(accessKey));
        await registry.close();
      }
    }
    expect(emissions.codes).toContain('source_failed');
    expect(emissions.leaks).toEqual([]);
  });

  const boastful = (text: string) =>
    Object.assign(new Error(text), { [text]: text, errors: [text], config: { data: text } });
});

describe('G3', () => {
  const source = { requestToken: async () => ({ token: 'a-token' }) };
  const endpoint = { baseUrl: 'https://localhost', clientId: 'the-client', clientSecret };
  const registryWith = (options: object) => () => new OwnerTokenRegistry({ source, ...options } as never);
  const endpointWith = (options: object) => () => new TokenEndpoint({ ...endpoint, ...options } as never);
  const bad = clientSecret;
  const NAMES = [
    ...'source expiry maxOwners concurrency maxQueued maxQueueMs refreshWindow'.split(' '),
    ...'logger ownerLabel fingerprintKey calls clock random pauses'.split(' '),
  ];
  const ENDPOINT_NAMES = [
    ...'baseUrl tokenRequest timeoutMs maxResponseBytes parseResponse'.split(' '),
    ...'classifyFailure allowInsecureHttp agent fetch clock'.split(' '),
  ];

  it.each<[string, () => unknown]>([
    ...NAMES.map((name): [string, () => unknown] => [name, registryWith({ [name]: bad })]),
    ...NAMES.map((name): [string, () => unknown] => [name, registryWith({ [name]: [{ [bad]: bad }, bad, bad] })]),
    ...ENDPOINT_NAMES.map((name): [string, () => unknown] => [name, endpointWith({ [name]: bad })]),
    ['baseUrl', endpointWith({ baseUrl: `https://user:${bad}@localhost` })],
    ['baseUrl', endpointWith({ baseUrl: `http://${bad}.example` })],
    ['baseUrl', endpointWith({ baseUrl: `https://localhost?secret=${bad}` })],
    ['clientSecret', endpointWith({ clientSecret: { value: bad } })],
    ['clientId', endpointWith({ clientId: [bad] })],
    ['pauses.owner', registryWith({ pauses: { owner: bad } })],
    ['pauses.client.baseMs', registryWith({ pauses: { client: { baseMs: bad, capMs: 7 } } })],
    ['pauses.endpoint.capMs', registryWith({ pauses: { endpoint: { baseMs: 7, capMs: 6 } } })],
    ['calls.allowedOrigins', registryWith({ calls: { allowedOrigins: [bad] } })],
    ['calls.present', registryWith({ calls: { present: bad } })],
    ['allowedOrigins', () => registryWith({})().ownerFetch(accessKey, { allowedOrigins: [`https://x/${bad}`] })],
    ['timeoutMs', () => registryWith({})().close({ timeoutMs: bad as never })],
    ['fixedLifetime', () => fixedLifetime(bad as never)],
    ['firstKnown', () => firstKnown(bad as never)],
    ['unit', () => expiresIn({ unit: bad as never })],
    ['learnedLifetime', () => learnedLifetime({ [bad]: bad } as never)],
    ['a name with characters other than letters', registryWith({ [`${bad} ${accessKey}`]: 1 })],
  ])('a bad %s is reported by path, never by value', async (path, make) => {
    let error: unknown;
    try {
      await make();
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(OwnerTokenError);
    const { code, message } = error as OwnerTokenError;
    expect(code).toMatch(/^(invalid_options|insecure_url)$/);
    expect(message).toContain(path);
    expect(message).toMatch(/expected |unknown option/);
    expect(leaksIn(message)).toEqual([]);
  });

  it('all problems are listed together, unknown options with the known ones', () => {
    const make = () =>
      new OwnerTokenRegistry({
        source: 7,
        maxOwner: 5,
        concurrency: 0,
        calls: { fetsh: 1 },
        pauses: { ownr: 1 },
      } as never);
    expect(make).toThrow(
      expect.objectContaining({
        code: 'invalid_options',
        message: [
          'OwnerTokenRegistry: invalid options:',
          `  - maxOwner: unknown option; expected one of ${Object.keys(REGISTRY_OPTIONS).join(', ')}; did you mean maxOwners?`,
          '  - source: expected a TokenSource, such as a TokenEndpoint',
          '  - concurrency: expected an integer from 1 to 10000',
          '  - calls.fetsh: unknown option; expected one of allowedOrigins, present, fetch; did you mean fetch?',
          '  - pauses.ownr: unknown option; expected one of owner, client, endpoint; did you mean owner?',
        ].join('\n'),
      }),
    );
  });

  it('an option given as undefined counts as absent', async () => {
    const undefineds = Object.fromEntries(NAMES.filter((name) => name !== 'source').map((name) => [name, undefined]));
    const registry = registryWith({ ...undefineds, pauses: { owner: undefined } })();
    expect((await registry.getToken(accessKey)).value).toBe('a-token');
    await registry.close();
  });
});
