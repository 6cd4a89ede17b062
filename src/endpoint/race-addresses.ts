/**
 * Connects to a name that has several addresses. Node tries them one after the other and abandons each after half a second,
 * so it never reaches a slower service with one dead address. Here attempts overlap (Happy Eyeballs): the first to connect
 * wins.
 *
 * @see {@link https://www.rfc-editor.org/rfc/rfc8305#section-5 RFC 8305 §5}
 */

import dns, { type LookupAddress } from 'node:dns';
import type http from 'node:http';
import net, { type NetConnectOpts, type Socket, type TcpNetConnectOpts } from 'node:net';

type Done = (error: Error | null, socket?: Socket) => void;

/**
 * Makes an agent connect in this way.
 *
 * @param timeoutMs how long an attempt may take.
 */
export function raceAddresses(agent: http.Agent & { readonly protocol?: string }, timeoutMs: number): void {
  const connect = agent.createConnection.bind(agent) as (options: NetConnectOpts, done?: Done) => Socket;
  agent.createConnection = ((options: TcpNetConnectOpts, done: Done) => {
    const { host = '' } = options;
    if (net.isIP(host) !== 0 || !net.getDefaultAutoSelectFamily()) return connect(options, done);
    // Not destructured, because an application may have replaced the method.
    dns.lookup(host, { all: true }, (error, addresses) => {
      if (error) return done(error);
      race(inTurns(addresses), options, timeoutMs, (failed, socket) => {
        // With `socket`, the method of an https agent only adds TLS.
        const isPlain = !socket || agent.protocol !== 'https:';
        done(failed, isPlain ? socket : connect({ ...options, socket } as NetConnectOpts));
      });
    });
    return undefined;
  }) as typeof agent.createConnection;
}

/** Alternates between the families, beginning with that of the first address. */
function inTurns(addresses: readonly LookupAddress[]): LookupAddress[] {
  const same = addresses.filter(({ family }) => family === addresses[0]?.family);
  const others = addresses.filter((each) => !same.includes(each));
  return addresses.flatMap((_, at) => [...same.slice(at, at + 1), ...others.slice(at, at + 1)]);
}

function race(addresses: LookupAddress[], options: TcpNetConnectOpts, timeoutMs: number, done: Done): void {
  const { port, noDelay, keepAlive, keepAliveInitialDelay } = options;
  const attempts = new Set<Socket>();
  const errors: NodeJS.ErrnoException[] = [];
  let timer: NodeJS.Timeout | undefined;
  const end = (error: Error | null, winner?: Socket) => {
    clearTimeout(timer);
    for (const attempt of attempts) if (attempt !== winner) attempt.destroy();
    done(error, winner);
  };
  const attemptNext = (): void => {
    clearTimeout(timer);
    const { address: host } = addresses.shift() as LookupAddress;
    const socket = net.connect({ host, port, noDelay, keepAlive, keepAliveInitialDelay } as TcpNetConnectOpts);
    attempts.add(socket);
    // A pending attempt must not keep the process alive.
    socket.unref().setTimeout(timeoutMs, () => socket.destroy(timedOut()));
    const failed = (error: NodeJS.ErrnoException) => {
      attempts.delete(socket);
      errors.push(error);
      if (addresses.length > 0) attemptNext();
      else if (attempts.size === 0) end(errors.length === 1 ? error : allFailed(errors));
    };
    socket.once('error', failed).once('connect', () => {
      socket.ref().setTimeout(0).removeAllListeners('timeout').off('error', failed);
      end(null, socket);
    });
    if (addresses.length > 0) timer = setTimeout(attemptNext, net.getDefaultAutoSelectFamilyAttemptTimeout()).unref();
  };
  attemptNext();
}

const timedOut = () => Object.assign(new Error('the connection attempt took too long'), { code: 'ETIMEDOUT' });

/** As Node reports it. */
function allFailed(errors: NodeJS.ErrnoException[]): Error {
  return Object.assign(new AggregateError(errors), { code: errors[0]?.code });
}
