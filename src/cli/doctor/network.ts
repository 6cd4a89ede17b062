/** Checks of DNS name, certificate and clock. None of them sends a secret. */

import { lookup } from 'node:dns/promises';
import https from 'node:https';
import { BlockList, getDefaultAutoSelectFamilyAttemptTimeout, isIP } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { adviceOnCertificate } from '../diagnosis.ts';
import { isLoopback } from '../environment.ts';
import { agentFor, mayUseProxy, type Network } from '../network.ts';
import type { ObservedAnswer } from '../token-service.ts';
import { plural, type Result } from './report.ts';

const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '');

/** Resolves the name and classifies its addresses, without printing either. */
export async function checkName(url: URL, network: Network): Promise<Result> {
  if (mayUseProxy(url, network))
    return { status: 'ok', text: 'not resolved: the proxy does that', facts: { proxy: true } };
  const host = hostOf(url);
  if (isIP(host))
    return { status: 'ok', text: `IP address, no DNS lookup (${kindOf(host)})`, facts: { kinds: [kindOf(host)] } };
  const addresses = await lookup(host, { all: true });
  const kinds = [...new Set(addresses.map(({ address }) => kindOf(address)))];
  const families = [...new Set(addresses.map(({ family }) => `IPv${family}`))].sort();
  const isDual = families.length > 1;
  const advice = `With an agent or fetch of your own, Node gives up each address after ${getDefaultAutoSelectFamilyAttemptTimeout()} ms: see docs/networking.md.`;
  const text = `resolves to ${plural(addresses.length, 'address', 'addresses')} (${families.join(', ')}; ${kinds.join(', ')})`;
  return { status: 'ok', text, ...(isDual && { advice }), facts: { addresses: addresses.length, families, kinds } };
}

const RANGES: Readonly<Record<string, readonly [net: string, bits: number][]>> = {
  loopback: [
    ['127.0.0.0', 8],
    ['::1', 128],
  ],
  'private network': [
    ['10.0.0.0', 8],
    ['172.16.0.0', 12],
    ['192.168.0.0', 16],
    ['100.64.0.0', 10],
    ['fc00::', 7],
  ],
  'link-local': [
    ['169.254.0.0', 16],
    ['fe80::', 10],
  ],
};

function kindOf(address: string): string {
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  for (const [kind, nets] of Object.entries(RANGES)) {
    const list = new BlockList();
    for (const [net, bits] of nets) list.addSubnet(net, bits, isIP(net) === 6 ? 'ipv6' : 'ipv4');
    if (list.check(address, family)) return kind;
  }
  return 'public internet';
}

/**
 * Completes a TLS handshake and reports the protocol, whether the certificate is valid for this name, and for how many
 * days. It also accepts an invalid certificate, to say what is wrong with it; nothing is sent over this connection.
 */
export async function checkTls(url: URL, signal: AbortSignal, network: Network): Promise<Result> {
  if (url.protocol === 'http:') {
    if (isLoopback(url)) return { status: 'ok', text: 'not used: plain http to loopback', facts: { protocol: null } };
    return { status: 'warning', text: 'plain http: the credentials are sent unencrypted', facts: { protocol: null } };
  }
  const { protocol, problem, endsAtMs } = await handshake(url, signal, network);
  const daysLeft = Math.floor((endsAtMs - Date.now()) / 86_400_000);
  const facts = { protocol, daysLeft, ...(problem && { problem }) };
  if (problem) {
    return {
      status: 'failed',
      text: `invalid certificate: ${problem}`,
      advice: adviceOnCertificate(problem),
      facts,
    };
  }
  const text = `${protocol}; the certificate is valid for ${plural(daysLeft, 'more day', 'more days')}`;
  return { status: daysLeft < 14 ? 'warning' : 'ok', text, facts };
}

interface Handshake {
  protocol: string;
  problem: string | undefined;
  endsAtMs: number;
}

/** Uses an agent, because agents connect through a proxy. The request is destroyed before it is sent. */
function handshake(url: URL, signal: AbortSignal, network: Network): Promise<Handshake> {
  const agent = agentFor(url, network);
  const request = https.request(url, { agent, rejectUnauthorized: false, signal });
  return new Promise<Handshake>((resolve, reject) => {
    request.on('error', reject);
    request.once('socket', (given) => {
      const socket = given as TLSSocket;
      const inspect = (): void => {
        const problem = socket.authorized ? undefined : codeOf(socket.authorizationError);
        const endsAtMs = Date.parse(socket.getPeerCertificate().valid_to);
        resolve({ protocol: socket.getProtocol() ?? 'TLS', problem, endsAtMs });
        request.destroy();
      };
      // Through a proxy the socket arrives after its handshake.
      if (socket.getPeerCertificate()?.valid_to === undefined) socket.once('secureConnect', inspect);
      else inspect();
    });
  }).finally(() => agent.destroy());
}

/** Node types `authorizationError` as an Error, but it is an error code, or a message if the error has no code. */
function codeOf(error: unknown): string {
  const code = typeof error === 'string' ? error : (error as NodeJS.ErrnoException | undefined)?.code;
  return code !== undefined && /^[A-Z][A-Z0-9_]{1,40}$/.test(code) ? code : 'UNVERIFIED';
}

/** From this difference on, the check warns. */
const NOTABLE_MS = 5_000;

/**
 * How far the service's clock is ahead of ours. The difference is a range: `Date` has whole seconds and was written at
 * some time between request and answer.
 */
export function clockDifference(times: ObservedAnswer | undefined): Result {
  const dateMs = Date.parse(times?.date ?? '');
  if (!times || Number.isNaN(dateMs)) return { status: 'skipped', text: 'no response with a Date header' };
  const leastMs = dateMs - times.receivedMs;
  const mostMs = dateMs + 1_000 - times.sentMs;
  const facts = { leastMs, mostMs };
  if (leastMs <= 0 && mostMs >= 0) {
    const boundMs = Math.max(-leastMs, mostMs);
    return { status: 'ok', text: `in sync with this machine (within ${seconds(boundMs)})`, facts };
  }
  const [nearMs, farMs] = leastMs > 0 ? [leastMs, mostMs] : [-mostMs, -leastMs];
  const text = `the service's clock is ${seconds(nearMs)} to ${seconds(farMs)} ${leastMs > 0 ? 'ahead' : 'behind'}`;
  if (nearMs < NOTABLE_MS) return { status: 'ok', text, facts };
  const advice =
    'The library counts lifetimes and dates by the clock that states them, so it is not affected. Certificates and logs may be.';
  return { status: 'warning', text, advice, facts };
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
