/** The built package as users run it, and the bare things it is compared with. */

import { subscribe } from 'node:diagnostics_channel';
import http from 'node:http';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, BatchSpanProcessor, InMemorySpanExporter } from '@opentelemetry/sdk-trace-base';
import { LRUCache } from 'lru-cache';
import { pino } from 'pino';
import { tokenOf } from './service.mjs';

const library = await import('../../../dist/index.js').catch((cause) => {
  throw new Error('npm run build first', { cause });
});
const { instrument } = await import('../../../dist/otel/index.js');

const HOUR_S = 3_600;

/**
 * @param service where tokens come from; without one, they are issued at once in this process: where the number of owners matters and
 * the requests do not.
 * @param options `logged`: pino at debug, which logs every request, to a file that keeps nothing; `traced`:
 * OpenTelemetry's metrics and spans, with a subscriber to every diagnostics channel of a request; `watched`: a subscriber
 * to the channel of lookups; `fetch` for the endpoint; more for the registry.
 */
export function openOurs(service, { logged, traced, watched, fetch, ...options } = {}) {
  const { OwnerTokenRegistry, TokenEndpoint } = library;
  const instantSource = {
    requestToken: async (accessKey) => ({ token: tokenOf(accessKey), response: { expires_in: HOUR_S } }),
  };
  const source = service ? new TokenEndpoint({ ...endpointOptions(service), fetch }) : instantSource;
  const logger = logged ? pino({ level: 'debug' }, pino.destination({ dest: '/dev/null', sync: true })) : undefined;
  const registry = new OwnerTokenRegistry({ source, logger, ...options });
  if (watched) subscribe('owner-token-registry:lookup', () => {});
  const stop = traced ? instrument(registry, openTelemetry()) : () => {};
  return {
    registry,
    getToken: async (accessKey) => (await registry.getToken(accessKey)).value,
    async renew(accessKey, token) {
      registry.reject(accessKey, token);
      const renewed = await registry.getToken(accessKey);
      // The call is repeated with success, as `ownerFetch` reports it: an owner whose new tokens all fail would be paused.
      registry.accept(accessKey, renewed);
      return renewed.value;
    },
    async close() {
      stop();
      await registry.close();
    },
  };
}

/** The registry as a player beside the peers. */
export const ours = { name: 'ours', open: (service, options) => openOurs(service, options) };

const endpointOptions = ({ baseUrl, clientId, clientSecret }) => ({ baseUrl, clientId, clientSecret });

function openTelemetry() {
  const tracerProvider = new BasicTracerProvider({
    spanProcessors: [new BatchSpanProcessor(new InMemorySpanExporter(), { scheduledDelayMillis: 86_400_000 })],
  });
  return { meterProvider: new MeterProvider(), tracerProvider };
}

/** The least that a bounded cache does. Its tokens never expire. */
export function lruCacheGet(max) {
  const cache = new LRUCache({ max });
  return { set: (key, token) => cache.set(key, token), get: (key) => cache.get(key) };
}

/** The least that a bounded cache of tokens does, because tokens expire. */
export function lruCacheGetAndDate(max) {
  const cache = new LRUCache({ max });
  const endsAtMs = Date.now() + HOUR_S * 1_000;
  const get = (key) => (Date.now() < endsAtMs ? cache.get(key) : undefined);
  return { set: (key, token) => cache.set(key, token), get };
}

/** The nearest peer: it bounds, shares a load, and checks on each hit whether the token has ended. */
export function lruCacheFetch(max) {
  const ttl = HOUR_S * 1_000;
  const cache = new LRUCache({ max, ttl, ttlResolution: 0, fetchMethod: async (accessKey) => tokenOf(accessKey) });
  return { set: (key, token) => cache.set(key, token), get: (key) => cache.fetch(key) };
}

const bodyOf = ({ clientId, clientSecret }, accessKey) =>
  JSON.stringify({
    grant_type: 'client_credentials',
    client_id: clientId,
    client_secret: clientSecret,
    appliance_owner_scope: accessKey,
  });

/** A POST over a keep-alive agent, and a Map of the tokens and their expiries: no deadline, no bound, no shared request. */
export function bareHttp(service) {
  const agent = new http.Agent({ keepAlive: true });
  const { hostname, port, pathname: path } = new URL(service.tokenUrl);
  const options = { hostname, port, path, method: 'POST', agent, headers: { 'content-type': 'application/json' } };
  const request = (accessKey) =>
    new Promise((resolve, reject) => {
      const sent = http.request(options, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part) => {
          text += part;
        });
        response.on('end', () => (response.statusCode === 200 ? resolve(JSON.parse(text)) : reject(new Error(text))));
        response.on('error', reject);
      });
      sent.on('error', reject).end(bodyOf(service, accessKey));
    });
  const getToken = keeping(request);
  return { getToken, close: () => agent.destroy() };
}

/** The least that a cache does: a Map of the tokens and their expiries. */
function keeping(request) {
  const held = new Map();
  return async (accessKey) => {
    const found = held.get(accessKey);
    if (found && Date.now() < found.endsAtMs) return found.token;
    const { access_token: token, expires_in: seconds } = await request(accessKey);
    if (typeof token !== 'string') throw new Error('the token endpoint answered without a token');
    held.set(accessKey, { token, endsAtMs: Date.now() + seconds * 1_000 });
    return token;
  };
}

export function bareFetch(service) {
  const getToken = keeping(async (accessKey) => {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(service.tokenUrl, { method: 'POST', headers, body: bodyOf(service, accessKey) });
    if (!response.ok) throw new Error(`the token endpoint answered ${response.status}`);
    return await response.json();
  });
  return { getToken, close() {} };
}

/** Every token names its owner, up to a full stop. */
export function verify(accessKey, token) {
  if (token.split('.', 1)[0] !== tokenOf(accessKey)) throw new Error(`a wrong token for ${accessKey}: ${token}`);
}
