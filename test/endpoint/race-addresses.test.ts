import dns from 'node:dns';
import http from 'node:http';
import net from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { raceAddresses } from '../../src/endpoint/race-addresses.ts';
import { TokenEndpoint } from '../../src/index.ts';
import { LoopbackService } from '../helpers/loopback-service.ts';
import { errorOf } from '../helpers/registries.ts';

afterEach(() => void vi.restoreAllMocks());

/** The name resolves to these addresses. */
function resolvesTo(...addresses: string[]): void {
  vi.spyOn(dns, 'lookup').mockImplementation(((_host: string, _options: object, done: (...args: unknown[]) => void) => {
    const found = addresses.map((address) => ({ address, family: net.isIP(address) }));
    process.nextTick(done, addresses.length > 0 ? null : Object.assign(new Error(), { code: 'ENOTFOUND' }), found);
  }) as typeof dns.lookup);
}

/** An attempt: to which address, and how it ends, if a test decides that. */
interface Attempt {
  readonly host: string;
  readonly socket: net.Socket;
}

/** Attempts that connect to nothing, so that a test decides how each one ends; and a timer that it lets fire. */
function attempts() {
  const made: Attempt[] = [];
  const waiting: { fn: () => void; ms: number }[] = [];
  vi.spyOn(net, 'connect').mockImplementation(((options: net.TcpNetConnectOpts) => {
    const socket = new net.Socket();
    made.push({ host: options.host ?? '', socket });
    return socket;
  }) as typeof net.connect);
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(((fn: () => void, ms: number) => {
    const timer = { fn, ms, unref: () => timer };
    waiting.push(timer);
    return timer;
  }) as never);
  vi.spyOn(globalThis, 'clearTimeout').mockImplementation(((timer: never) => {
    if (waiting.includes(timer)) waiting.splice(waiting.indexOf(timer), 1);
  }) as typeof clearTimeout);
  return { made, waiting, hosts: () => made.map(({ host }) => host) };
}

/** Starts to connect. Returns what becomes of it. */
function connecting() {
  const agent = new http.Agent();
  raceAddresses(agent, 7_000);
  const outcome: { error?: NodeJS.ErrnoException | null; socket?: net.Socket | undefined } = {};
  const create = agent.createConnection as unknown as (options: object, done: (...args: never[]) => void) => void;
  create({ host: 'api.example.com', port: 80 }, (error: Error | null, socket?: net.Socket) =>
    Object.assign(outcome, { error, socket }),
  );
  return outcome;
}

/** As Node does when a connection fails. */
function fail(attempt: Attempt | undefined, code: string): void {
  attempt?.socket.emit('error', Object.assign(new Error(), { code }));
  attempt?.socket.destroy();
}

const nextTick = () => new Promise((resolve) => process.nextTick(resolve));

describe('a name with several addresses', () => {
  it('is connected to by the first that answers, however late it is', async () => {
    resolvesTo('192.0.2.1', '2001:db8::1');
    const { made, waiting, hosts } = attempts();
    const outcome = connecting();
    await nextTick();
    expect([hosts(), waiting.map(({ ms }) => ms)]).toEqual([
      ['192.0.2.1'],
      [net.getDefaultAutoSelectFamilyAttemptTimeout()],
    ]);
    waiting.shift()?.fn();
    expect(hosts()).toEqual(['192.0.2.1', '2001:db8::1']);
    fail(made[1], 'ENETUNREACH');
    expect([outcome, made[0]?.socket.destroyed]).toEqual([{}, false]);
    made[0]?.socket.emit('connect');
    expect(outcome).toMatchObject({ error: null, socket: made[0]?.socket });
    expect(made[0]?.socket.timeout).toBe(0);
  });

  it('is tried at the next one at once if one is refused, and by turns of the families', async () => {
    resolvesTo('2001:db8::1', '2001:db8::2', '2001:db8::3', '192.0.2.1');
    const { made, hosts } = attempts();
    const outcome = connecting();
    await nextTick();
    for (const at of [0, 1, 2]) fail(made[at], 'ECONNREFUSED');
    expect(hosts()).toEqual(['2001:db8::1', '192.0.2.1', '2001:db8::2', '2001:db8::3']);
    made[3]?.socket.emit('connect');
    expect(outcome.socket).toBe(made[3]?.socket);
  });

  it('ends the attempts that lost', async () => {
    resolvesTo('192.0.2.1', '2001:db8::1');
    const { made, waiting } = attempts();
    connecting();
    await nextTick();
    waiting.shift()?.fn();
    made[1]?.socket.emit('connect');
    expect(made.map(({ socket }) => socket.destroyed)).toEqual([true, false]);
  });

  it('fails once all have, with the code of the first', async () => {
    resolvesTo('192.0.2.1', '2001:db8::1');
    const { made } = attempts();
    const outcome = connecting();
    await nextTick();
    fail(made[0], 'EHOSTUNREACH');
    expect(outcome).toEqual({});
    fail(made[1], 'ECONNREFUSED');
    expect(outcome.error).toMatchObject({ name: 'AggregateError', code: 'EHOSTUNREACH' });
  });

  it('is given up after timeoutMs for each attempt', async () => {
    resolvesTo('192.0.2.1');
    const { made } = attempts();
    const outcome = connecting();
    await nextTick();
    expect(made[0]?.socket.timeout).toBe(7_000);
    made[0]?.socket.emit('timeout');
    await nextTick();
    expect(outcome.error).toMatchObject({ code: 'ETIMEDOUT' });
  });
});

describe.each([false, true])('over real sockets, with TLS %s', (tls) => {
  const credentials = { clientId: 'the-app', clientSecret: 'the-secret' };
  const started = async () => {
    const service = await LoopbackService.start({ tls });
    const { port } = service;
    const baseUrl = `${tls ? 'https' : 'http'}://localhost:${port}`;
    return { service, endpoint: new TokenEndpoint({ baseUrl, ...credentials }) };
  };
  const trust = () => tls && vi.spyOn(process, 'emitWarning').mockReturnValue();

  it('a dead first address is skipped, and the connection is kept', async () => {
    trust();
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', tls ? '0' : undefined);
    const { service, endpoint } = await started();
    await using _ = service;
    resolvesTo('::1', '127.0.0.1');
    for (const key of ['a', 'b']) expect((await endpoint.requestToken(key)).token).toContain(`of-${key}`);
    expect(service.connections).toBe(1);
    await endpoint.close();
  });
});

it('a name that does not resolve is a failure of the network', async () => {
  resolvesTo();
  const endpoint = new TokenEndpoint({ baseUrl: 'https://nowhere.example', clientId: 'a', clientSecret: 'b' });
  expect(await errorOf(endpoint.requestToken('key'))).toMatchObject({
    code: 'endpoint_unavailable',
    cause: { code: 'ENOTFOUND' },
  });
});
