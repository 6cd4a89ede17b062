import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export type Service = Awaited<ReturnType<typeof startService>>;

/** A service that issues a token to every owner after `delayMs`, or answers 503 while it fails, and counts requests. */
export async function startService(delayMs: number) {
  const service = { requests: 0, delayMs, failing: false, expiresIn: 3_600, url: '', close: () => {} };
  const server = createServer((request, response) => {
    service.requests++;
    const number = service.requests;
    const answer = () => {
      response.writeHead(service.failing ? 503 : 200, { 'content-type': 'application/json' });
      response.end(service.failing ? '{}' : `{"access_token":"token-${number}","expires_in":${service.expiresIn}}`);
    };
    // What is never answered must not keep the process alive once the server is closed.
    request.resume().on('end', () => setTimeout(answer, service.delayMs).unref());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  service.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  service.close = () => {
    server.close();
    server.closeAllConnections();
  };
  return service;
}
