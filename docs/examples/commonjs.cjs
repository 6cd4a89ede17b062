// A CommonJS program in plain JavaScript. Run it: node commonjs.cjs
const { isOwnerTokenError, OwnerTokenRegistry, TokenEndpoint } = require('owner-token-registry');
const { startSandbox } = require('owner-token-registry/sandbox');

async function main() {
  const sandbox = await startSandbox({ owners: 2 });
  const { url: baseUrl, clientId, clientSecret, accessKeys } = sandbox;
  const registry = new OwnerTokenRegistry({ source: new TokenEndpoint({ baseUrl, clientId, clientSecret }) });
  try {
    const response = await registry.ownerFetch(accessKeys[0])(`${baseUrl}/echo`);
    console.log(response.status, await response.json());
    await registry.getToken('a wrong access key');
  } catch (error) {
    if (!isOwnerTokenError(error)) throw error;
    console.log('no token:', error.code);
  } finally {
    await registry.close();
    await sandbox.close();
  }
}

main();
