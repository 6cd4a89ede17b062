import net, { type AddressInfo, type Socket } from 'node:net';

/** What a {@link TcpProxy} does with replies: passes them, cuts the connection instead, or holds them back. */
export type ProxyMode = 'pass' | 'cut-replies' | 'hold';

/** A TCP proxy that drops or delays replies as the test requires. */
export class TcpProxy implements AsyncDisposable {
  #mode: ProxyMode = 'pass';
  #delayMs = 0;
  #toPort: number;
  readonly #server: net.Server;
  readonly #sockets = new Set<Socket>();
  readonly #silenced = new WeakSet<Socket>();

  private constructor(toPort: number) {
    this.#toPort = toPort;
    this.#server = net.createServer((client) => {
      const upstream = net.connect(this.#toPort, '127.0.0.1');
      for (const socket of [client, upstream]) {
        this.#sockets.add(socket.setNoDelay());
        socket.on('error', () => {});
        socket.on('close', () => {
          this.#sockets.delete(socket);
          client.destroy();
          upstream.destroy();
        });
      }
      client.on('data', (chunk) => this.#silenced.has(client) || upstream.write(chunk));
      upstream.on('data', (chunk) => this.#silenced.has(client) || this.#reply(client, chunk));
    });
  }

  static async start(toPort: number): Promise<TcpProxy> {
    const proxy = new TcpProxy(toPort);
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** @param delayMs added to each reply that passes. */
  become(mode: ProxyMode, delayMs = 0): void {
    this.#mode = mode;
    this.#delayMs = delayMs;
  }

  /** New connections lead to another port, like a name that has moved. */
  leadTo(port: number): void {
    this.#toPort = port;
  }

  /** Drops everything on open connections, like a firewall that has forgotten them. New connections work. */
  silenceAll(): void {
    for (const socket of this.#sockets) this.#silenced.add(socket);
  }

  /** Destroys every connection, like a failing network. */
  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cutAll();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #reply(client: Socket, chunk: Buffer): void {
    if (this.#mode === 'hold') return;
    if (this.#mode === 'cut-replies') client.destroy();
    else if (this.#delayMs > 0) setTimeout(() => client.write(chunk), this.#delayMs);
    else client.write(chunk);
  }
}
