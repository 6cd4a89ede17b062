/** Row G2, on the endpoint: a service that sends back what it was sent, in every place where there is room for it. */

import { inspect } from 'node:util';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { TokenEndpointOptions } from '../../src/endpoint/options.ts';
import { TokenEndpoint } from '../../src/endpoint/token-endpoint.ts';
import { basicAuthRequest, formRequest } from '../../src/endpoint/token-request.ts';
import { OwnerTokenError } from '../../src/errors/owner-token-error.ts';
import { type Answer, head, json, LoopbackService, raw, status, thenEnd } from '../helpers/loopback-service.ts';

let service: LoopbackService;

beforeEach(async () => {
  service = await LoopbackService.start();
});

afterEach(() => service.close());

/** Canaries in the shapes that pass for something else: an OAuth code, a number, a library's error code, a header. */
interface Secrets {
  clientId: string;
  clientSecret: string;
  accessKey: string;
}

const SHAPES: [string, Secrets][] = [
  ['opaque', { clientId: 'id-9f3aK', clientSecret: 'S3cr3t/+=canary', accessKey: 'AK:7c51d0ff-canary' }],
  ['like an OAuth code', { clientId: 'client_canary', clientSecret: 'secret_canary', accessKey: 'owner_canary_key' }],
  ['like numbers', { clientId: '1200345', clientSecret: '9990045678', accessKey: '4711471147' }],
  ['like error codes', { clientId: 'ECANARYID', clientSecret: 'ECANARYSECRET', accessKey: 'EKEYCANARY' }],
];

/** Everything that could be made of an error, and of what hangs on it. */
function printed(error: OwnerTokenError): string {
  const lines: string[] = [];
  const logger = pino({ base: null }, { write: (line: string) => void lines.push(line) });
  logger.error(error);
  logger.error({ err: error });
  const all = [error, error.cause];
  return [
    ...lines,
    ...all.map((each) => inspect(each, { depth: null, showHidden: true, getters: true })),
    ...all.map((each) => JSON.stringify(each)),
    ...[String(error), error.stack, error.message, ...Object.values(error).map(String)],
    inspect(structuredClone({ ...error, cause: undefined }), { depth: null }),
  ].join('\n');
}

const TRANSPORTS: [string, Partial<TokenEndpointOptions>][] = [
  ['node:http', {}],
  ['fetch', { fetch }],
  ['node:http as a form', { tokenRequest: formRequest() }],
  ['fetch with HTTP Basic', { fetch, tokenRequest: basicAuthRequest() }],
];

/** A secret as services may repeat it: in clear, and as the shapes of the request encode it. */
const formsOf = ({ clientId, clientSecret }: Secrets, secret: string) => [
  ...[secret, new URLSearchParams({ '': secret }).toString().slice(1), encodeURIComponent(secret)],
  Buffer.from(secret).toString('base64'),
  ...(secret === clientSecret ? [Buffer.from(`${clientId}:${clientSecret}`).toString('base64')] : []),
];

describe.each(SHAPES)('G2 echoed secrets (%s)', (_, given) => {
  const { clientId, clientSecret, accessKey } = given;
  const secrets = [clientId, clientSecret, accessKey];
  const forms = [...new Set(secrets.flatMap((secret) => formsOf(given, secret)))];

  /** Each form of each secret in each place. */
  const echoes = forms.flatMap((secret): [string, Answer][] => {
    const page = `<html><h1>Bad request</h1><p>${secret}</p></html>`;
    const grant = JSON.stringify({ access_token: `bad token ${secret}` });
    return [
      ['as the error', json(400, { error: secret })],
      ['as the error of a 401', json(401, { error: secret, error_description: secret, error_uri: secret })],
      ['within the error', json(400, { error: `invalid_${secret}` })],
      ['as the start of it', json(400, { error: secret.slice(0, -2) })],
      ['in the description', json(400, { error: 'invalid_client', error_description: `${secret} is wrong` })],
      ['in HTML', status(400, page, { 'content-type': 'text/html' })],
      ['in the HTML of an outage', status(503, page)],
      ['in the headers', status(429, '', { 'retry-after': secret, 'x-echo': secret, 'set-cookie': secret })],
      ['in the reason', raw(`HTTP/1.1 500 ${secret}\r\nContent-Length: 0\r\n\r\n`)],
      ['in a redirect', status(302, page, { location: `https://${encodeURIComponent(secret)}@example.com/${secret}` })],
      ['in a useless grant', status(200, grant)],
      ['in JSON that is none', status(200, `{"access_token": ${secret}`)],
      ['in what is no HTTP', thenEnd(raw(`${secret}\r\n\r\n`))],
      ['in the headers, garbled', raw(`HTTP/1.1 200 OK\r\n${secret} : \x01${secret}\r\n\r\n`)],
      ['in a chunk', raw(head(200, { 'transfer-encoding': 'chunked' }), `size ${secret}\r\n`)],
      ['as a coding', status(200, page, { 'content-encoding': secret })],
      ['in a body that breaks off', thenEnd(raw(head(200, { 'content-length': '9999' }), page))],
    ];
  });

  it.each(TRANSPORTS)('appear in no error through %s', async (_name, transport) => {
    const endpoint = new TokenEndpoint({ baseUrl: service.url, clientId, clientSecret, ...transport });
    for (const [place, answer] of echoes) {
      service.next(answer);
      const error: unknown = await endpoint.requestToken(accessKey).catch((thrown: unknown) => thrown);
      expect(error, place).toBeInstanceOf(OwnerTokenError);
      const shown = printed(error as OwnerTokenError);
      expect(
        forms.filter((form) => shown.includes(form)),
        place,
      ).toEqual([]);
    }
    await endpoint.close();
  });
});
