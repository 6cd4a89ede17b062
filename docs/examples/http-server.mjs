// A server that calls the service on behalf of the owner in the path. Run it: node http-server.mjs
import http from 'node:http';
import { isOwnerTokenError, OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { startSandbox } from 'owner-token-registry/sandbox';

const sandbox = await startSandbox({ owners: 2 });
const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
const keyOf = { alice: accessKeys[0], bob: accessKeys[1], mallory: 'revoked' };

const server = http.createServer(async (request, response) => {
  const accessKey = keyOf[request.url.slice(1)];
  if (!accessKey) return response.writeHead(404).end();
  try {
    const signal = AbortSignal.timeout(15_000); // longer than the endpoint's `timeoutMs`, so that a slow token service is named
    const apiResponse = await registry.ownerFetch(accessKey)(`${baseUrl}/echo`, { signal });
    const body = await apiResponse.text();
    const status = apiResponse.status === 401 ? 502 : apiResponse.status; // a 401 of yours would log your caller out
    response.writeHead(status, { 'content-type': 'application/json' }).end(body);
  } catch (error) {
    // The deadline passed in the token service or the API: the signal's TimeoutError. No token: an OwnerTokenError.
    if (error.name === 'TimeoutError') return response.writeHead(504).end('timeout');
    if (!isOwnerTokenError(error)) return response.writeHead(502).end('api_unreachable');
    if (!error.retryable) return response.writeHead(502).end(error.code);
    const waitMs = (error.retryAtMs ?? Date.now() + 1000) - Date.now();
    response.writeHead(503, { 'retry-after': Math.max(1, Math.ceil(waitMs / 1000)) }).end(error.code);
  }
});
server.listen(0, '127.0.0.1', async () => {
  for (const name of ['alice', 'bob', 'mallory']) {
    const response = await fetch(`http://127.0.0.1:${server.address().port}/${name}`);
    console.log(name, response.status);
  }
  server.close();
  server.closeAllConnections();
  await registry.close();
  await sandbox.close();
});
