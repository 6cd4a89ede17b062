import { createServer, type Server as HttpServer, type RequestListener } from 'node:http';
import type { Server as HttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';

/** Runs `use` with the port of 127.0.0.1 on which this server, or one with this handler, listens meanwhile. */
export async function withServer<T>(
  given: RequestListener | HttpServer | HttpsServer,
  use: (port: number) => Promise<T>,
): Promise<T> {
  const server = typeof given === 'function' ? createServer(given) : given;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await use((server.address() as AddressInfo).port);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
