/** What lies between this machine and the service: name, certificate, clock. Nothing secret is sent from here. */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { lookup } from 'node:dns/promises';
import type { Agent, ClientRequest, IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import { type ConnectionOptions, connect } from 'node:tls';
import type { Finding, Found } from './report.ts';

const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '');

/** Does the name resolve, and to what kinds of address. Neither name nor addresses are repeated. */
export async function lookAtName(url: URL): Promise<Found> {
  const host = hostOf(url);
  if (isIP(host))
    return { status: 'ok', text: `an address and no name: ${kindOf(host)}`, facts: { kinds: [kindOf(host)] } };
  const addresses = await lookup(host, { all: true });
  const kinds = [...new Set(addresses.map(({ address }) => kindOf(address)))];
  const families = [...new Set(addresses.map(({ family }) => `IPv${family}`))].sort();
  const text = `the name has ${count(addresses.length, 'address', 'addresses')} (${families.join(', ')}): ${kinds.join(', ')}`;
  return { status: 'ok', text, facts: { addresses: addresses.length, families, kinds } };
}

const count = (n: number, one: string, many: string): string => `${n} ${n === 1 ? one : many}`;

const RANGES: Readonly<Record<string, readonly [net: string, bits: number][]>> = {
  'this machine': [
    ['127.0.0.0', 8],
    ['::1', 128],
  ],
  'a private network': [
    ['10.0.0.0', 8],
    ['172.16.0.0', 12],
    ['192.168.0.0', 16],
    ['100.64.0.0', 10],
    ['fc00::', 7],
  ],
  'this link only': [
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
  return 'the public internet';
}

/**
 * The secure connection: which protocol, is the certificate good for this name, for how many days yet. A bad one is
 * looked at too, to say what is bad about it; nothing is sent over this connection, whatever it is.
 *
 * @param trust signers to trust instead of those that this machine does.
 */
export async function lookAtTls(
  url: URL,
  signal: AbortSignal,
  trust: Pick<ConnectionOptions, 'ca'> = {},
): Promise<Found> {
  if (url.protocol === 'http:') {
    const own = ['localhost', '127.0.0.1', '::1'].includes(hostOf(url)) || kindOf(hostOf(url)) === 'this machine';
    if (own) return { status: 'ok', text: 'plain http, which does not leave this machine', facts: { protocol: null } };
    return { status: 'warning', text: 'plain http: all secrets are sent in clear', facts: { protocol: null } };
  }
  const { protocol, problem, endsAtMs } = await handshake(url, signal, trust);
  const daysLeft = Math.floor((endsAtMs - Date.now()) / 86_400_000);
  const facts = { protocol, daysLeft, ...(problem && { problem }) };
  if (problem) {
    return {
      status: 'failed',
      text: `the certificate is refused: ${problem}`,
      advice: adviceForCertificate(problem),
      facts,
    };
  }
  const text = `${protocol}, and the certificate is good for ${count(daysLeft, 'day', 'days')} yet`;
  return { status: daysLeft < 14 ? 'warning' : 'ok', text, facts };
}

interface Handshake {
  protocol: string;
  problem: string | undefined;
  endsAtMs: number;
}

function handshake(url: URL, signal: AbortSignal, trust: Pick<ConnectionOptions, 'ca'>): Promise<Handshake> {
  const host = hostOf(url);
  return new Promise((resolve, reject) => {
    const socket = connect({
      host,
      port: Number(url.port || 443),
      ...(!isIP(host) && { servername: host }),
      ...trust,
      rejectUnauthorized: false,
    });
    signal.addEventListener('abort', () => socket.destroy(signal.reason), { once: true });
    socket.once('error', reject);
    socket.once('secureConnect', () => {
      const problem = socket.authorized ? undefined : codeOf(socket.authorizationError);
      const endsAtMs = Date.parse(socket.getPeerCertificate().valid_to);
      resolve({ protocol: socket.getProtocol() ?? 'TLS', problem, endsAtMs });
      socket.destroy();
    });
  });
}

/** Node's types call it an error; it is the error's code, or its message for want of one. */
function codeOf(error: unknown): string {
  const code = typeof error === 'string' ? error : (error as NodeJS.ErrnoException | undefined)?.code;
  return code !== undefined && /^[A-Z][A-Z0-9_]{1,40}$/.test(code) ? code : 'UNVERIFIED';
}

function adviceForCertificate(problem: string): string {
  if (/EXPIRED/.test(problem)) return 'The certificate has ended, or the clock of this machine is wrong.';
  if (/NOT_YET/.test(problem)) return 'The certificate is not good yet, or the clock of this machine is wrong.';
  if (/ALTNAME|HOSTNAME/.test(problem)) return 'The certificate is for another name. Is OTR_BASE_URL right?';
  return 'This machine does not know who signed it. If you do, name the signer in NODE_EXTRA_CA_CERTS, or give an agent.';
}

/** When a request was sent, when its answer began, and what time the service said it was. */
export interface AnswerTimes {
  readonly sentMs: number;
  readonly receivedMs: number;
  readonly date: string | undefined;
}

/** Watches the answers that come over an agent, by the channels of Node's own client. */
export function watchAnswers(agent: Agent): { last(): AnswerTimes | undefined; stop(): void } {
  const sent = new WeakMap<ClientRequest, number>();
  let last: AnswerTimes | undefined;
  const isOurs = (request: ClientRequest) => (request as { agent?: unknown }).agent === agent;
  const onSent = (message: unknown): void => {
    const { request } = message as { request: ClientRequest };
    if (isOurs(request)) sent.set(request, Date.now());
  };
  const onAnswer = (message: unknown): void => {
    const { request, response } = message as { request: ClientRequest; response: IncomingMessage };
    const sentMs = sent.get(request);
    if (sentMs !== undefined) last = { sentMs, receivedMs: Date.now(), date: response.headers.date };
  };
  subscribe('http.client.request.start', onSent);
  subscribe('http.client.response.finish', onAnswer);
  return {
    last: () => last,
    stop() {
      unsubscribe('http.client.request.start', onSent);
      unsubscribe('http.client.response.finish', onAnswer);
    },
  };
}

/** A difference that this is over is worth a word. */
const NOTABLE_MS = 5_000;

/**
 * How far the service's clock is ahead of ours. `Date` has whole seconds, and was written at some time between the
 * sending and the answer: so the difference is known as a range only.
 */
export function clockDifference(times: AnswerTimes | undefined): Omit<Finding, 'check'> {
  const dateMs = Date.parse(times?.date ?? '');
  if (!times || Number.isNaN(dateMs)) return { status: 'skipped', text: 'no answer with a date has come' };
  const leastMs = dateMs - times.receivedMs;
  const mostMs = dateMs + 1_000 - times.sentMs;
  const facts = { leastMs, mostMs };
  if (leastMs <= 0 && mostMs >= 0) {
    const boundMs = Math.max(-leastMs, mostMs);
    return { status: 'ok', text: `the same time on both sides, as far as can be told: ± ${seconds(boundMs)}`, facts };
  }
  const [nearMs, farMs] = leastMs > 0 ? [leastMs, mostMs] : [-mostMs, -leastMs];
  const text = `the service's clock is ${seconds(nearMs)} to ${seconds(farMs)} ${leastMs > 0 ? 'ahead' : 'behind'}`;
  if (nearMs < NOTABLE_MS) return { status: 'ok', text, facts };
  const advice =
    'Lifetimes count from our own clock, so tokens are safe; a JWT without iat, and dates in answers, are not.';
  return { status: 'warning', text, advice, facts };
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
