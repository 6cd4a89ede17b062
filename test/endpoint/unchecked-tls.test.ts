import { expect, it, vi } from 'vitest';
import { TokenEndpoint } from '../../src/endpoint/token-endpoint.ts';

it.each([
  ['https://service.example', '0', 1],
  ['https://service.example', '1', 0],
  ['https://service.example', undefined, 0],
  ['http://127.0.0.1:1', '0', 0],
])('an endpoint at %s with NODE_TLS_REJECT_UNAUTHORIZED=%s warns %i times', (baseUrl, setting, times) => {
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', setting);
  const warned = vi.spyOn(process, 'emitWarning').mockReturnValue();
  new TokenEndpoint({ baseUrl, clientId: 'app', clientSecret: 'secret' });
  expect(warned).toHaveBeenCalledTimes(times);
  for (const [text] of warned.mock.calls) expect(text).toMatch(/client secret.*NODE_EXTRA_CA_CERTS/);
});
