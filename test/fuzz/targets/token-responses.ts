/** The reader of token responses: through `fetch`, and from the bytes on a socket. */

import fc from 'fast-check';
import { OwnerTokenRegistry, TokenEndpoint, type TokenEndpointOptions } from '../../../src/index.ts';
import { SECRETS } from '../../helpers/canaries.ts';
import { LoopbackService, raw, thenEnd } from '../../helpers/loopback-service.ts';
import { ManualClock, settle } from '../../helpers/manual-clock.ts';
import { mustBeTyped, mustBeUsable, mustNotLeak, outcomeOf } from '../checks.ts';
import { jsonOf, mostly, mutated, oddValues, texts } from '../inputs.ts';
import { must, type Target, targetOf } from '../target.ts';

const { clientSecret, accessKey, otherAccessKey } = SECRETS;
const MAX_BYTES = 4_096;
/** A first one, a retry, and two more for a token that another owner has or that has ended on arrival. */
const MOST_REQUESTS = 4;

export const responseBodies = fc.oneof(
  {
    weight: 9,
    arbitrary: jsonOf({
      access_token: mostly(fc.constantFrom('token-1', 'token-2', 'token-3')),
      token_type: mostly(fc.constantFrom('Bearer', 'bearer')),
      expires_in: mostly(fc.nat(100_000)),
      error: mostly(fc.constantFrom('invalid_client', 'invalid_grant', 'slow_down')),
      error_description: texts,
      scope: oddValues,
    }),
  },
  { weight: 1, arbitrary: texts },
  { weight: 1, arbitrary: fc.nat(MAX_BYTES * 2).map((depth) => '['.repeat(depth)) },
);

const answers = fc.record({
  status: fc.constantFrom(200, 200, 200, 200, 201, 203, 206, 299),
  body: responseBodies,
  encoding: fc.constantFrom('utf8' as const, 'utf8' as const, 'latin1' as const, 'utf16le' as const),
  /** The body comes in pieces of so many bytes. */
  pieceBytes: fc.integer({ min: 16, max: 2 * MAX_BYTES }),
  /** It goes on for ten times the limit. */
  isTooLong: fc.constantFrom(false, false, false, false, true),
  retryAfter: fc.option(texts, { nil: undefined }),
});

type Answer = typeof answers extends fc.Arbitrary<infer T> ? T : never;

/** A registry of two owners on this endpoint, and its calls for both at once. */
async function callBoth(options: Partial<TokenEndpointOptions>, turns?: number) {
  const clock = new ManualClock();
  const given = { baseUrl: 'http://127.0.0.1:9', clientId: 'client', clientSecret, clock, maxResponseBytes: MAX_BYTES };
  const source = new TokenEndpoint({ ...given, ...options });
  const lines: unknown[] = [];
  const log = (...line: unknown[]) => void lines.push(line);
  const logger = { trace: log, debug: log, info: log, warn: log, error: log, fatal: log };
  const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5, logger });
  const keys = [accessKey, otherAccessKey];
  const calls = keys.map((key) => registry.getToken(key));
  const outcomes = [];
  for (const call of calls) outcomes.push(await outcomeOf(call, clock, turns === undefined ? {} : { turns }));
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') mustBeUsable(outcome.value, clock.now());
    else mustBeTyped(outcome.reason, clock.now());
    mustNotLeak('the outcome', outcome.status === 'fulfilled' ? outcome.value : outcome.reason);
  }
  mustNotLeak('the log', lines);
  mustNotLeak(
    'the state',
    keys.map((key) => registry.describe(key)),
    registry.stats(),
  );
  const closed = registry.close({ timeoutMs: 1 });
  await settle();
  clock.advance(1);
  await closed;
  return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value.value : undefined));
}

/** The tokens that a body may state, by the platform's own parsers. */
function statedIn(body: Buffer): unknown[] {
  const encodings = ['utf-8', 'utf-16le', 'utf-16be', 'latin1'];
  return encodings.map((encoding) => {
    try {
      const token: unknown = JSON.parse(new TextDecoder(encoding).decode(body))?.access_token;
      return typeof token === 'string' ? token.trim() : token;
    } catch {
      return undefined;
    }
  });
}

const bytesOf = ({ body, encoding }: Answer): Buffer => Buffer.from(body, encoding);

/** The answer in its pieces. Counts the bytes that are read. */
function responseTo({ status, pieceBytes, isTooLong, retryAfter, ...rest }: Answer, count: (bytes: number) => void) {
  const bytes = bytesOf({ status, pieceBytes, isTooLong, retryAfter, ...rest });
  let [at, readBytes] = [0, 0];
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    if (at >= bytes.length && isTooLong && readBytes < 10 * MAX_BYTES) at = 0;
    if (at >= bytes.length) return controller.close();
    const piece = bytes.subarray(at, at + pieceBytes);
    at += pieceBytes;
    readBytes += Math.max(1, piece.length);
    count(piece.length);
    controller.enqueue(piece);
  };
  const headers = new Headers();
  try {
    if (retryAfter !== undefined) headers.set('retry-after', retryAfter);
  } catch {
    // No server can send it either.
  }
  return new Response(new ReadableStream({ pull }, { highWaterMark: 0 }), { status, headers });
}

export const tokenResponses = targetOf(
  'token responses',
  fc.record({ mine: answers, theirs: answers }),
  async ({ mine, theirs }) => {
    const requests = new Map<string, number>();
    let mostBeyond = 0;
    const fetch = async (_: unknown, init?: RequestInit) => {
      const { appliance_owner_scope: key } = JSON.parse(String(init?.body));
      requests.set(key, (requests.get(key) ?? 0) + 1);
      const answer = key === accessKey ? mine : theirs;
      let readBytes = 0;
      return responseTo(answer, (bytes) => {
        readBytes += bytes;
        mostBeyond = Math.max(mostBeyond, readBytes - MAX_BYTES - answer.pieceBytes);
      });
    };
    const tokens = await callBoth({ fetch: fetch as typeof globalThis.fetch });
    must(mostBeyond === 0, `${mostBeyond} bytes beyond the limit were read`);
    for (const [index, answer] of [mine, theirs].entries()) {
      const token = tokens[index];
      must(
        token === undefined || statedIn(bytesOf(answer)).includes(token),
        `owner ${index} got a token that it was not sent`,
      );
    }
    for (const [key, count] of requests) must(count <= MOST_REQUESTS, `${count} requests for ${key}`);
  },
);

const heads = mutated(
  fc.constantFrom(
    'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n',
    'HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 30\r\n',
    'HTTP/1.1 503 Away\r\nretry-after: 7\r\ncontent-length: 0\r\n',
    'HTTP/1.1 307 Away\r\nlocation: https://evil.example/\r\n',
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n',
    'HTTP/1.0 200 OK\r\n',
  ),
);

/** Whatever the bytes are, the connection ends after them. */
export const wireResponses: Target<{ head: string; body: string }> = {
  name: 'token responses on the wire',
  inputs: fc.record({ head: heads, body: responseBodies }),
  async open() {
    const service = await LoopbackService.start();
    return {
      async check({ head, body }) {
        service.always(thenEnd(raw(Buffer.from(`${head}\r\n${body}`, 'latin1'))));
        const before = service.calls.length;
        const tokens = await callBoth({ baseUrl: service.url }, 2_000);
        const stated = statedIn(Buffer.from(body, 'latin1'));
        for (const token of tokens)
          must(
            token === undefined || `${head}${body}`.includes(token) || stated.includes(token),
            'a token from nowhere',
          );
        must(service.calls.length - before <= 2 * 2 * MOST_REQUESTS, 'too many requests');
      },
      close: async () => service[Symbol.asyncDispose](),
    };
  },
};
