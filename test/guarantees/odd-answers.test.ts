/**
 * Answers as services really send them: what users of other clients reported. Each is played through a registry and both
 * transports, over real sockets, since it is the bytes that matter.
 */

import { describe, expect, it } from 'vitest';
import { OwnerTokenRegistry, TokenEndpoint, type TokenEndpointOptions } from '../../src/index.ts';
import { type Answer, json, LoopbackService, status } from '../helpers/loopback-service.ts';
import { ManualClock } from '../helpers/manual-clock.ts';
import { errorOf } from '../helpers/registries.ts';
import { ResourceService } from '../helpers/resource-service.ts';

const TRANSPORTS: [string, Partial<TokenEndpointOptions>][] = [
  ['node:http', {}],
  ['fetch', { fetch }],
];

const CREDENTIALS = { clientId: 'the-app', clientSecret: 'the-secret' };

/** The next token request is answered so. Returns what becomes of the call. */
async function callAnswered<T>(
  answer: Answer,
  options: Partial<TokenEndpointOptions>,
  use: (registry: OwnerTokenRegistry, clock: ManualClock) => Promise<T>,
): Promise<T> {
  await using service = await LoopbackService.start();
  service.always(answer);
  const clock = new ManualClock();
  const source = new TokenEndpoint({ baseUrl: service.url, ...CREDENTIALS, clock, ...options });
  await using registry = new OwnerTokenRegistry({ source, clock });
  return await use(registry, clock);
}

describe.each(TRANSPORTS)('through %s', (_name, transport) => {
  const JSON_TEXT = '{"access_token":"abc","token_type":"Bearer","expires_in":600,"owner":"Kühlhaus"}';
  const utf16 = Buffer.from(`\ufeff${JSON_TEXT}`, 'utf16le');
  it.each<[string, string, Buffer]>([
    ['a byte order mark', 'application/json; charset=utf-8', Buffer.from(`\ufeff${JSON_TEXT}`)],
    ['Latin-1, named', 'application/json; charset=iso-8859-1', Buffer.from(JSON_TEXT, 'latin1')],
    ['Latin-1, not named', 'application/json', Buffer.from(JSON_TEXT, 'latin1')],
    ['half a character', 'application/json', Buffer.from([...Buffer.from(JSON_TEXT.slice(0, 74)), 0xc3, 0x22, 0x7d])],
    ['UTF-16', 'application/json; charset=utf-16', utf16],
    ['UTF-16 without a mark', 'application/json; charset=utf-16le', utf16.subarray(2)],
    ['UTF-16 of the other byte order', 'application/json; charset=utf-16', Buffer.from(utf16).swap16()],
    ['UTF-16 of the other byte order without a mark', 'text/plain', Buffer.from(utf16).swap16().subarray(2)],
  ])('a good token in %s is read', async (_what, type, body) => {
    const token = await callAnswered(status(200, body, { 'content-type': type }), transport, (registry) =>
      registry.getToken('owner'),
    );
    expect(token.value).toBe('abc');
  });

  it('a charset in Content-Encoding does not make a good token unusable', async () => {
    const answer = status(200, JSON_TEXT, { 'content-encoding': 'UTF-8' });
    expect((await callAnswered(answer, transport, (registry) => registry.getToken('owner'))).value).toBe('abc');
  });

  it.each([-86_400, -28_800, -600, 0, 600, 28_800, 86_400])(
    'a date in Retry-After counts from the service’s own clock, with ours %i s ahead',
    async (aheadS) => {
      for (const code of [429, 503]) {
        const clock = new ManualClock();
        const at = (ms: number) => new Date(clock.now() - aheadS * 1_000 + ms).toUTCString();
        const answer = status(code, '', { date: at(0), 'retry-after': at(20_000) });
        const retryInMs = await callAnswered(answer, { ...transport, clock }, async (registry, registryClock) => {
          const { retryAtMs = 0 } = await errorOf(registry.getToken('owner'));
          return retryAtMs - registryClock.now();
        });
        expect(retryInMs).toBe(20_000);
      }
    },
  );

  it.each<[number, string, object]>([
    [429, '20', {}],
    [429, '20.5', {}],
    [429, '20.0', {}],
    [503, '20', { error: 'temporarily_unavailable' }],
    [400, '20', { error: 'temporarily_unavailable' }],
    [400, '20.25', { error: 'slow_down' }],
    [403, '20', { error: 'server_error' }],
    [200, '20', { error: 'temporarily_unavailable' }],
  ])('a %i with Retry-After %s and %j is retryable, about 20 s later', async (code, wait, body) => {
    const answer = json(code, body, { 'retry-after': wait });
    const { retryable, retryInMs } = await callAnswered(answer, transport, async (registry, clock) => {
      const error = await errorOf(registry.getToken('owner'));
      return { retryable: error.retryable, retryInMs: (error.retryAtMs ?? 0) - clock.now() };
    });
    expect(retryable).toBe(true);
    expect(retryInMs).toBe(Number(wait) * 1_000);
  });

  it("the service's time comes from the Date of the answer", async () => {
    await using service = await LoopbackService.start();
    const endpoint = new TokenEndpoint({ baseUrl: service.url, ...CREDENTIALS, ...transport });
    service.next(json(200, { access_token: 'a' }, { date: 'Tue, 01 Jan 2030 00:00:00 GMT' }));
    expect(await endpoint.requestToken('a')).toMatchObject({ serviceTimeMs: Date.UTC(2030, 0, 1) });
    service.next(json(200, { access_token: 'a' }, { date: 'today' }));
    expect((await endpoint.requestToken('a')).serviceTimeMs).toBeUndefined();
    await endpoint.close();
  });
});

/** Calls an API that knows one scheme, with a token of this type. Returns the status, and how many warnings there were. */
async function callWithTokenType(type: unknown, scheme: string) {
  const warned: Record<string, unknown>[] = [];
  await using api = await ResourceService.start(({ path, headers }, response) => {
    if (path === '/auth/v1/token') {
      response.end(JSON.stringify({ access_token: 'tok-1', token_type: type, expires_in: 600 }));
    } else response.writeHead(headers.authorization === `${scheme} tok-1` ? 200 : 401).end();
  });
  const source = new TokenEndpoint({ baseUrl: api.origin, ...CREDENTIALS });
  const warn = (fields: object) => void warned.push({ ...fields });
  const silent = () => {};
  const logger = { level: 'warn', warn, error: warn, fatal: warn, info: silent, debug: silent, trace: silent };
  await using registry = new OwnerTokenRegistry({ source, logger });
  const response = await registry.ownerFetch('owner')(`${api.origin}/x`);
  await registry.ownerFetch('another')(`${api.origin}/x`);
  const about = warned.filter((fields) => fields['owner_token.event'] === 'scheme.unknown');
  return { status: response.status, warnings: about.length };
}

describe('a token type', () => {
  it.each(['BearerToken', 'Bearer ', 'urn:ietf:params:oauth:token-type:access_token'])(
    'that is no scheme is presented as Bearer, with one warning: %j',
    async (type) => {
      expect(await callWithTokenType(type, 'Bearer')).toEqual({ status: 200, warnings: 1 });
    },
  );

  it.each(['bearer', '', null, ['Bearer']])('of %j is presented as Bearer, without a warning', async (type) => {
    expect(await callWithTokenType(type, 'Bearer')).toEqual({ status: 200, warnings: 0 });
  });

  it('that is a registered scheme is presented as it is', async () => {
    expect(await callWithTokenType('DPoP', 'DPoP')).toEqual({ status: 200, warnings: 0 });
  });
});

describe('a credential with a line break or blank around it', () => {
  it.each<[string, Partial<TokenEndpointOptions>, string]>([
    ['clientSecret', { clientSecret: 'the-secret\n' }, 'owner'],
    ['clientId', { clientId: ' the-app' }, 'owner'],
    ['clientSecret', { clientSecret: async () => 'the-secret\r\n' }, 'owner'],
    ['the access key', {}, 'owner\n'],
  ])('is named in the error: %s', async (which, options, key) => {
    for (const [code, error] of [[401, 'invalid_client'] as const, [400, undefined] as const]) {
      const { message } = await callAnswered(json(code, { error }), options, (registry) =>
        errorOf(registry.getToken(key)),
      );
      expect(message).toMatch(new RegExp(`; leading or trailing white space in ${which}$`));
    }
  });
});
