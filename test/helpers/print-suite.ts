import { format, inspect } from 'node:util';
import { gzipSync } from 'node:zlib';
import { pino, stdSerializers } from 'pino';
import { describe, expect, it } from 'vitest';
import { callRules, type OwnerFetch, ownerFetchFor } from '../../src/calling/owner-fetch.ts';
import { AccessToken } from '../../src/token.ts';
import { SECRETS } from './canaries.ts';
import { LOOPBACK_CERTIFICATE } from './loopback-certificate.ts';
import { ResourceService } from './resource-service.ts';

export interface RawOptions {
  readonly signal: AbortSignal;
  /** The certificate of the server. */
  readonly ca: string;
  /** The client's own limit, in the scene that is about it. */
  readonly timeoutMs: number | undefined;
}

/** A call that returns what the client itself returns, or throws what it throws. */
export type RawCall = (call: OwnerFetch, url: string, options: RawOptions) => Promise<unknown>;

const SCENES = [
  ...['success', 'compressed', '500', '401', 'redirect', 'redirect-500', 'redirect-cut', 'redirect-elsewhere'],
  ...['reset', 'cut', 'aborted', 'timeout', 'unreachable'],
];
const UNREACHABLE = 'http://127.0.0.1:1';

/** Nothing that a client returns or throws prints the token. Each way to call the client is a test. */
export function printSuite(ways: Readonly<Record<string, RawCall>>): void {
  describe('printing', () => {
    for (const [way, raw] of Object.entries(ways)) {
      for (const scheme of ['http', 'https']) {
        it(`prints no token, whatever ${way} returns or throws over ${scheme}`, async () => {
          let aborting = new AbortController();
          await using service = await serviceOf(scheme, () => aborting.abort());
          const allowedOrigins = [service.origin, UNREACHABLE];
          const call = ownerFetchFor(TOKENS, 'key', callRules({ allowedOrigins }, NO_RULES));
          const leaks: string[] = [];
          for (const scene of SCENES) {
            aborting = new AbortController();
            const url = `${scene === 'unreachable' ? UNREACHABLE : service.origin}/${scene}`;
            const timeoutMs = scene === 'timeout' ? 50 : undefined;
            const options = { signal: aborting.signal, ca: LOOPBACK_CERTIFICATE, timeoutMs };
            const outcome = await raw(call, url, options).catch((error: unknown) => error);
            const found = [...leaksOf(outcome), ...(await leaksOfReading(outcome))];
            leaks.push(...new Set(found.map((print) => `${scene}: ${print}`)));
          }
          expect(leaks).toEqual([]);
          // It was sent, and is found where it is.
          expect(new Set(service.tokens)).toEqual(new Set([SECRETS.token]));
          expect(leaksOf(Object.assign(new Error(), { request: { headers: SECRETS.token } })).length).toBeGreaterThan(
            9,
          );
        });
      }
    }
  });
}

const NO_RULES = { origins: [], present: undefined, fetch: undefined };
const TIMES = { issuedAtMs: 0, refreshAtMs: Number.POSITIVE_INFINITY, expiresAtMs: Number.POSITIVE_INFINITY };
const TOKEN = new AccessToken({ value: SECRETS.token, tokenType: 'Bearer', fingerprint: 'token_1', ...TIMES });
const TOKENS = { getToken: async () => TOKEN, reject: () => true, accept: () => {} };

/** Does what the path says. */
const serviceOf = (scheme: string, abort: () => void): Promise<ResourceService> =>
  ResourceService.start(({ path }, response) => {
    const scene = path.slice(1);
    if (scene === 'redirect-elsewhere') response.writeHead(302, { location: 'http://127.0.0.2:1/' }).end();
    else if (scene.startsWith('redirect'))
      response.writeHead(302, { location: scene.replace(/redirect-?/, '/') }).end();
    else if (scene === 'compressed') response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('ok'));
    else if (/^\d/.test(scene)) response.writeHead(Number(scene)).end('no');
    else if (scene === 'reset') response.destroy();
    else if (scene === 'cut') response.writeHead(200, { 'content-length': 50 }).write('x', () => response.destroy());
    else if (scene === 'aborted') abort();
    else if (scene !== 'timeout') response.end('ok');
  }, scheme);

/** The properties that lead from the objects of a client to what it sent. */
const PARTS = ['request', 'req', 'response', 'res', 'socket', 'data', 'body', 'options', 'config', 'cause', 'headers'];

/** The ways to print a value, or a part of it, that show the token. Of Node's own parts, a copy does. */
function leaksOf(value: unknown): string[] {
  const parts = PARTS.map((name) => [name, (value as Record<string, unknown> | undefined)?.[name]] as const);
  return [['', value] as const, ...parts.filter(([, part]) => typeof part === 'object')].flatMap(([part, printed]) =>
    Object.entries(printsOf(printed))
      .filter(([print]) => part === '' || print !== 'JSON of a copy')
      .filter(([, print]) => textOf(print).includes(SECRETS.token))
      .map(([print]) => `${print} ${part}`),
  );
}

function printsOf(value: unknown): Record<string, () => string | undefined> {
  const logged = (log: (logger: ReturnType<typeof pino>) => void, serializers = {}, redact: string[] = []): string => {
    let written = '';
    log(pino({ serializers, redact }, { write: (line: string) => (written += line) }));
    return written;
  };
  return {
    inspect: () => inspect(value),
    'hidden properties': () => inspect(value, { depth: 4, showHidden: true }),
    '%o': () => format('%o', value),
    '%O, %j, %s': () => format('%O %j %s', value, value, value),
    string: () => String(value),
    JSON: () => JSON.stringify(value),
    'JSON of a copy': () => JSON.stringify({ ...(value as object) }),
    'pino, the value itself': () => logged((logger) => logger.error(value as object)),
    'pino, err': () => logged((logger) => logger.error({ err: value }, 'failed')),
    'pino, errWithCause': () => logged((logger) => logger.error({ err: value }), { err: stdSerializers.errWithCause }),
    'pino, any name': () => logged((logger) => logger.error({ value })),
    'pino, a copy, with the redaction of the recipes': () =>
      logged((logger) => logger.error({ request: { ...(value as object) } }), {}, ['err.request', 'request', 'req']),
    'pino, req': () => logged((logger) => logger.error({ req: value }), { req: stdSerializers.req }),
    'pino, res': () => logged((logger) => logger.error({ res: value }), { res: stdSerializers.res }),
  };
}

/** Not every value can be printed in every way. */
function textOf(print: () => string | undefined): string {
  try {
    return print() ?? '';
  } catch {
    return '';
  }
}

/** Reads what was returned to its end. An answer that is cut off fails only then. */
async function leaksOfReading(returned: unknown): Promise<string[]> {
  const { data, body } = (returned ?? {}) as { data?: unknown; body?: unknown };
  const leaks: string[] = [];
  for (const stream of [returned, data, body]) {
    if (typeof stream !== 'object' || stream === null || !(Symbol.asyncIterator in stream)) continue;
    try {
      for await (const _ of stream as AsyncIterable<unknown>);
    } catch (error) {
      leaks.push(...leaksOf(error));
    }
    leaks.push(...leaksOf(returned));
  }
  return leaks;
}
