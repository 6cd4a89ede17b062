import { OwnerTokenError, OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';
import { startSandbox } from 'owner-token-registry/sandbox';

export const dynamic = 'force-dynamic';

export async function GET() {
  const sandbox = await startSandbox();
  const { url: baseUrl, clientId, clientSecret, accessKeys, portalUrl } = sandbox;
  const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
  const registry = new OwnerTokenRegistry({ source, logger: 'info' });
  const token = await registry.getToken(accessKeys[0] ?? '');
  const error = await registry.getToken('wrong').catch((thrown: unknown) => thrown);
  const script = await fetch(new URL('/portal.js', portalUrl));
  const portal = (await script.text()).length > 10_000;
  await registry.close();
  await sandbox.close();
  return Response.json({ token: `${token}`, known: error instanceof OwnerTokenError, portal });
}
