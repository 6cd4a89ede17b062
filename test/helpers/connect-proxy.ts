import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import net, { type AddressInfo, type Socket } from 'node:net';
import { LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from './loopback-certificate.ts';

/**
 * A corporate proxy: tunnels by CONNECT, is reached over http or https, and may require a password. Every name leads to this
 * machine.
 */
export class ConnectProxy implements AsyncDisposable {
  /** The targets of the tunnels, in order: `127.0.0.1:443`. */
  readonly targets: string[] = [];
  readonly #server: http.Server;
  readonly #scheme: 'http' | 'https';
  readonly #sockets = new Set<Socket>();

  private constructor(scheme: 'http' | 'https', credentials: string | undefined) {
    this.#scheme = scheme;
    this.#server =
      scheme === 'https' ? https.createServer({ key: LOOPBACK_KEY, cert: LOOPBACK_CERTIFICATE }) : http.createServer();
    this.#server.on('connect', (request: http.IncomingMessage, client: Socket) => {
      this.#track(client);
      const expected = credentials && `Basic ${Buffer.from(credentials).toString('base64')}`;
      if (expected && request.headers['proxy-authorization'] !== expected) {
        client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
        return;
      }
      this.targets.push(request.url as string);
      const { port } = new URL(`http://${request.url}`);
      const upstream = net.connect(Number(port), '127.0.0.1', () => {
        client.write('HTTP/1.1 200 Connection established\r\n\r\n');
        client.pipe(upstream).pipe(client);
      });
      this.#track(upstream);
    });
  }

  static async start(scheme: 'http' | 'https' = 'http', credentials?: string): Promise<ConnectProxy> {
    const proxy = new ConnectProxy(scheme, credentials);
    await once(proxy.#server.listen(0, '127.0.0.1'), 'listening');
    return proxy;
  }

  get url(): string {
    return `${this.#scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => this.#sockets.delete(socket));
  }
}
