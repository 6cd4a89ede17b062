import { OwnerTokenRegistry, TokenEndpoint } from 'owner-token-registry';

async function main({ BASE_URL: baseUrl, CLIENT_ID: clientId, CLIENT_SECRET: clientSecret, ACCESS_KEY }) {
  const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
  const registry = new OwnerTokenRegistry({ source, logger: 'info' });
  const token = await registry.getToken(ACCESS_KEY);
  const firstTokenMs = Math.round(performance.now());
  const { code } = await registry.getToken('wrong').catch((error) => error);
  await registry.close();
  console.log(JSON.stringify({ token: `${token}`, code, firstTokenMs }));
}

main(process.env);
