import axios from 'axios';
import got from 'got';
import ky from 'ky';
import { ofetch } from 'ofetch';
import {
  allowInsecureRequests,
  ClientSecretPost,
  Configuration,
  clientCredentialsGrant,
  type ServerMetadata,
} from 'openid-client';
import { request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { readForeignError } from '../../src/failures/foreign-error.ts';
import { leaksIn, SECRETS, writtenDown } from '../helpers/canaries.ts';
import { type Answer, json, LoopbackService, reset, silence, status } from '../helpers/loopback-service.ts';
import { answerOf, HTML, oauthCodeIn, TYPICAL_VERDICTS, type Verdict } from '../helpers/verdicts.ts';

const NOW_MS = Date.UTC(2030, 0, 1);
const { accessKey, clientSecret } = SECRETS;
const form = { grant_type: 'client_credentials', client_secret: clientSecret, appliance_owner_scope: accessKey };

/** A wrapper of `fetch` as many code bases have one. */
class ApiError extends Error {
  readonly status: number;
  readonly headers: Headers;
  readonly data: unknown;
  constructor({ status, headers }: Response, data: unknown) {
    super(`${JSON.stringify(data)} for ${JSON.stringify(form)}`);
    this.status = status;
    this.headers = headers;
    this.data = data;
  }
}

/** How sources request a token with each client; all of them reject what is not a 2xx. */
const CLIENTS: Record<string, (url: string, timeoutMs: number) => Promise<unknown>> = {
  axios: (url, timeout) => axios.post(url, form, { timeout, maxRedirects: 0 }),
  got: (url, timeout) =>
    got.post(url, { json: form, timeout: { request: timeout }, retry: { limit: 0 }, followRedirect: false }).json(),
  ky: (url, timeout) => ky.post(url, { json: form, timeout, retry: 0, redirect: 'manual' }).json(),
  ofetch: (url, timeout) => ofetch(url, { method: 'POST', body: form, timeout, retry: 0, redirect: 'manual' }),
  'openid-client': (url, timeout) => {
    const server: ServerMetadata = { issuer: url, token_endpoint: url };
    const config = new Configuration(server, 'the-client', {}, ClientSecretPost(clientSecret));
    allowInsecureRequests(config);
    config.timeout = timeout / 1_000;
    return clientCredentialsGrant(config, { appliance_owner_scope: accessKey });
  },
  undici: async (url, headersTimeout) => {
    const { statusCode, headers, body } = await request(url, {
      method: 'POST',
      body: JSON.stringify(form),
      headersTimeout,
      headers: { 'content-type': 'application/json' },
    });
    const text = await body.text();
    if (statusCode !== 200)
      throw Object.assign(new Error(`${statusCode}: ${text}`), { statusCode, headers, body: text });
    return JSON.parse(text);
  },
  'a wrapper of fetch': async (url, timeout) => {
    const signal = AbortSignal.timeout(timeout);
    const response = await fetch(url, { method: 'POST', body: JSON.stringify(form), signal, redirect: 'manual' });
    if (!response.ok) throw new ApiError(response, await response.json().catch(() => undefined));
    return await response.json();
  },
};

let service: LoopbackService;
beforeEach(async () => {
  service = await LoopbackService.start();
});
afterEach(() => service.close());

/** What is read of the error with which a client meets this answer. */
async function read(client: string, answer: Answer, { url = service.url, timeoutMs = 5_000 } = {}) {
  service.always(answer);
  const thrown = await CLIENTS[client]?.(url, timeoutMs).then(
    () => expect.fail('the request succeeded'),
    (error: unknown) => error,
  );
  return readForeignError(thrown, NOW_MS);
}

/** What clients leave unread of an answer. */
const LEFT_UNREAD: Record<string, (verdict: Verdict) => boolean> = {
  ky: ({ body }) => body !== '',
  'openid-client': ({ status: answered, body }) => body === HTML || (answered >= 500 && body !== ''),
  'a wrapper of fetch': ({ body }) => body === HTML,
};

describe.each(Object.keys(CLIENTS))('an error of %s', (client) => {
  const readable = TYPICAL_VERDICTS.filter((verdict) => !LEFT_UNREAD[client]?.(verdict));

  it('is classified as that of the endpoint', async () => {
    for (const verdict of readable) {
      const error = await read(client, answerOf(verdict));
      const { code, status, oauthError } = error as OwnerTokenError;
      const { scope } = OwnerTokenError.escalationOf(error as OwnerTokenError);
      expect({ ...verdict, status, code, scope }).toEqual(verdict);
      expect(oauthError).toBe(oauthCodeIn(verdict));
    }
  });

  it.each([
    ['7', 7_000],
    ['Tue, 01 Jan 2030 00:00:30 GMT', 30_000],
  ])('keeps its Retry-After of %s', async (retryAfter, retryAfterMs) => {
    for (const answered of [429, 503]) {
      const error = await read(client, status(answered, '', { 'retry-after': retryAfter }));
      expect(error).toMatchObject({ status: answered, retryAfterMs, failedAtMs: NOW_MS });
    }
  });

  it('without a connection, or with a broken one, is endpoint_unavailable', async () => {
    expect(await read(client, reset())).toMatchObject({ code: 'endpoint_unavailable', status: undefined });
    const { url } = service;
    await service.close();
    expect(await read(client, reset(), { url })).toMatchObject({ code: 'endpoint_unavailable', status: undefined });
    service = await LoopbackService.start();
  });

  it('from a service that does not answer in time is endpoint_unavailable', async () => {
    expect(await read(client, silence(), { timeoutMs: 50 })).toMatchObject({ code: 'endpoint_unavailable' });
  });

  it('holds nothing that was sent or answered', async () => {
    const echo: Answer = (call) =>
      json(400, { error: 'owner_canary', sent: call.body }, { 'x-echo': accessKey, 'retry-after': accessKey })(call);
    const error = await read(client, echo);
    expect(error).toMatchObject({ code: 'owner_refused', oauthError: undefined, retryAfterMs: undefined });
    expect(leaksIn(writtenDown(error))).toEqual([]);
  });
});

it.each(['axios', 'ky', 'undici', 'a wrapper of fetch'])(
  'a redirect that %s does not follow is recognized as one',
  async (client) => {
    const error = await read(client, status(307, '', { location: 'https://elsewhere.example' }));
    expect(error).toMatchObject({ code: 'redirect_refused', status: 307 });
  },
);

it('headers of an unknown form do not hide the status, and endless ones are not read for ever', async () => {
  const endless = {
    *[Symbol.iterator]() {
      for (;;) yield ['x', 'y'];
    },
  };
  for (const headers of [[{ name: 'retry-after', value: '5' }], endless]) {
    const error = readForeignError({ status: 429, headers }, NOW_MS);
    expect(error).toMatchObject({ code: 'rate_limited', status: 429 });
  }
});

it.each(['invalid_client', 'invalid_grant'])('%s in a body that ky leaves unread is unknown', async (error) => {
  const read401 = await read('ky', json(401, { error }));
  expect(read401).toMatchObject({ code: 'owner_refused', status: 401, oauthError: undefined });
});

it.each(['got', 'openid-client'])('an HTML page with a 200, for %s, is an unusable answer', async (client) => {
  expect(await read(client, status(200, HTML, { 'content-type': 'text/html' }))).toMatchObject({
    code: 'invalid_response',
  });
});

describe('a thrown value', () => {
  const challenge = { 'WWW-Authenticate': 'Basic realm="tokens"' };
  const coded = (code: string) => Object.assign(new Error('?'), { code });

  it.each<[string, object, object]>([
    [
      'openid-client 5',
      { error: 'invalid_client', response: { statusCode: 401, headers: {} } },
      { code: 'client_refused' },
    ],
    ['a status alone', { status: 503 }, { code: 'endpoint_unavailable', status: 503 }],
    ['an OAuth code alone', { error: 'invalid_grant' }, { code: 'owner_refused', oauthError: 'invalid_grant' }],
    ['an outage code alone', { error: 'temporarily_unavailable' }, { code: 'endpoint_unavailable' }],
    ['the body as error', { statusCode: 400, body: '{"error":"invalid_scope"}' }, { code: 'owner_refused' }],
    ['pairs of headers', { status: 429, headers: [['Retry-After', 4]] }, { retryAfterMs: 4_000 }],
    ['a map of headers', { status: 429, headers: new Map([['Retry-After', '5']]) }, { retryAfterMs: 5_000 }],
    [
      'the time of the answer',
      {
        status: 429,
        headers: { 'Retry-After': 'Tue, 01 Jan 2030 00:00:30 GMT', Date: 'Tue, 01 Jan 2030 00:00:10 GMT' },
      },
      { retryAfterMs: 20_000 },
    ],
    [
      'the fields of simple-oauth2, whose own status is not that of the answer',
      {
        output: { statusCode: 406, headers: {} },
        data: { res: { statusCode: 429, headers: { 'retry-after': '6' } }, payload: '{"error":"invalid_client"}' },
      },
      { code: 'rate_limited', status: 429, oauthError: 'invalid_client', retryAfterMs: 6_000 },
    ],
    ['the fields of badgateway', { oauth2Code: 'invalid_client', httpCode: 401 }, { code: 'client_refused' }],
    ['the fields of msal-node', { errorCode: 'invalid_client', status: 401 }, { code: 'client_refused', status: 401 }],
    ['a broken connection of msal-node', { errorCode: 'network_error' }, { code: 'endpoint_unavailable' }],
    ['a body that msal-node cannot read', { errorCode: 'token_parsing_error' }, { code: 'invalid_response' }],
    ['a challenge', { status: 401, headers: challenge }, { code: 'client_refused' }],
    [
      'a challenge beside a body',
      { response: { status: 401, headers: challenge, data: {} } },
      { code: 'owner_refused' },
    ],
    [
      'a challenge beside a body that is unread',
      { cause: new Response('{}', { status: 401, headers: challenge }) },
      { code: 'client_refused' },
    ],
    ['a challenge and a code', { status: 401, headers: challenge, error: 'invalid_grant' }, { code: 'owner_refused' }],
    ['a challenge without a 401', { status: 403, headers: challenge }, { code: 'owner_refused' }],
    ['a success that cannot be parsed', { response: { status: 200 } }, { code: 'invalid_response', status: 200 }],
    [
      'a code in a cause',
      new TypeError('fetch failed', { cause: coded('ENOTFOUND') }),
      { code: 'endpoint_unavailable' },
    ],
    ['a certificate', coded('CERT_HAS_EXPIRED'), { code: 'endpoint_unavailable' }],
    [
      'a failed tunnel of undici',
      new Error('x', { cause: coded('UND_ERR_ABORTED') }),
      { code: 'endpoint_unavailable' },
    ],
  ])('with %s is read', (_what, thrown, expected) => {
    expect(readForeignError(thrown, NOW_MS)).toMatchObject(expected);
  });

  it.each<[string, unknown]>([
    ['a programming error', new TypeError('x is not a function')],
    ['an error of a file', coded('ENOENT')],
    ['a status that is none', { status: 'failed', statusCode: 42 }],
    ['an unknown OAuth code', { error: 'my_access_key' }],
    ['nothing', undefined],
    ['text', '503'],
    [
      'accessors that throw',
      new Proxy(
        {},
        {
          get: () => {
            throw new Error(accessKey);
          },
        },
      ),
    ],
  ])('with %s is not read', (_what, thrown) => {
    expect(readForeignError(thrown, NOW_MS)).toBeUndefined();
  });

  it.each([
    ['of 64 KiB is parsed as JSON', 65_536, 'invalid_grant'],
    ['of more is not', 65_537, undefined],
  ])('with a text body %s', (_what, length, oauthError) => {
    const body = JSON.stringify({ error: 'invalid_grant' }).padEnd(length);
    expect(readForeignError({ status: 400, body }, NOW_MS)).toMatchObject({ oauthError });
  });

  it('with endless causes is not read for ever', () => {
    const ring: Record<string, unknown> = { status: 429 };
    ring.cause = ring;
    expect(readForeignError(ring, NOW_MS)).toMatchObject({ code: 'rate_limited', retryAfterMs: undefined });
  });
});
