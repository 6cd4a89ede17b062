import { afterEach, describe, expect, it } from 'vitest';
import { basicAuthRequest, formRequest, OwnerTokenRegistry, TokenEndpoint } from '../../../../src/index.ts';
import { FACTS, type Fact, type ProfileChanges, type Sandbox, startSandbox } from '../../../../src/sandbox/index.ts';
import { MALFORMED_ANSWERS } from '../../../../src/sandbox/service/malformed-answers.ts';
import { DEFAULT_PROFILE } from '../../../../src/sandbox/state/world/profile.ts';
import { askToken, call, echo, tokenFor } from '../../client.ts';

let sandbox: Sandbox;

async function start(profile: ProfileChanges): Promise<Sandbox> {
  sandbox = await startSandbox({ owners: 2, lifetimeSeconds: 600, profile });
  sandbox.clock.freeze();
  return sandbox;
}

afterEach(() => sandbox.close());

describe('an answer of the shape', () => {
  it('odd differs in names, wrapping and how the lifetime is written, each by itself', async () => {
    await start({ shape: 'odd' });
    expect((await askToken(sandbox)).json).toEqual({
      data: { accessToken: expect.any(String), tokenType: 'bearer', expiresIn: '600' },
    });
    sandbox.setProfile({ odd: { wrapped: false } });
    expect((await askToken(sandbox)).json).toMatchObject({ expiresIn: '600' });
    sandbox.setProfile({ odd: { camelCase: false, lifetimeAs: 'milliseconds' } });
    expect((await askToken(sandbox)).json).toMatchObject({ token_type: 'bearer', expires_in: 600_000 });
  });

  it('hostile is another each time, in turn, and the ledger knows which could be used', async () => {
    await start({ shape: 'hostile' });
    const bodies = new Set<string>();
    for (const hostile of MALFORMED_ANSWERS) {
      const { status, text } = await askToken(sandbox);
      expect(status).toBe(200);
      bodies.add(text.replace(/sbx_[\w-]{20,}/g, ''));
      expect(sandbox.ledger.entries().at(-1)?.outcome).toBe(hostile.usable ? 'issued' : 'bad_answer');
    }
    expect(bodies.size).toBe(MALFORMED_ANSWERS.length);
  });

  it('hostile gives a token that nobody has, so that the next request is no waste', async () => {
    await start({ shape: 'hostile' });
    expect((await askToken(sandbox)).text).toBe('{}');
    sandbox.setProfile({ shape: 'rfc6749' });
    await tokenFor(sandbox);
    expect(sandbox.ledger.wasted).toBe(0);
  });
});

describe('a form', () => {
  it.each([
    ['with the credentials in it', formRequest],
    ['with the credentials in HTTP Basic', basicAuthRequest],
  ])('%s is accepted if the profile says so, and refused otherwise', async (_, shape) => {
    const { url, clientId, clientSecret, accessKeys } = await start({ acceptForms: true });
    const source = new TokenEndpoint({ baseUrl: url, clientId, clientSecret, tokenRequest: shape() });
    await using tokens = new OwnerTokenRegistry({ source });
    const token = await tokens.getToken(accessKeys[0] ?? '');
    expect((await echo(sandbox, token.value)).json).toEqual({ owner: sandbox.owners[0]?.id });
    sandbox.setProfile({ acceptForms: false });
    await expect(tokens.getToken(accessKeys[1] ?? '')).rejects.toMatchObject({ status: 415 });
  });
});

describe('a token', () => {
  it('is a JWT on request, and says for whom and how long it is valid', async () => {
    await start({ tokenFormat: 'jwt' });
    const token = await tokenFor(sandbox);
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    expect(claims).toMatchObject({ sub: sandbox.owners[0]?.id, exp: claims.iat + 600 });
    expect(claims.iat).toBe(Math.floor(sandbox.clock.now() / 1000));
    expect((await echo(sandbox, token)).status).toBe(200);
    expect((await echo(sandbox, `${token}x`)).status).toBe(401);
  });

  it("ends the one before, where that is the profile, and no other owner's", async () => {
    await start({ revokePrevious: true });
    const [first, other] = [await tokenFor(sandbox), await tokenFor(sandbox, sandbox.accessKeys[1])];
    const second = await tokenFor(sandbox);
    expect((await echo(sandbox, first)).status).toBe(401);
    expect((await echo(sandbox, second)).status).toBe(200);
    expect((await echo(sandbox, other)).status).toBe(200);
    sandbox.setProfile({ revokePrevious: false });
    await tokenFor(sandbox);
    expect((await echo(sandbox, second)).status).toBe(200);
  });

  it('is refused until it has been replicated', async () => {
    await start({ replicationLagMs: 2000 });
    const token = await tokenFor(sandbox);
    sandbox.clock.advance(1999);
    expect((await echo(sandbox, token)).status).toBe(401);
    sandbox.clock.advance(1);
    expect((await echo(sandbox, token)).status).toBe(200);
  });
});

describe('an error', () => {
  it.each<[ProfileChanges['errorForm'] & string, RegExp, RegExp]>([
    ['rfc6749', /^application\/json$/, /"error":"invalid_client"/],
    ['problem', /^application\/problem\+json$/, /"status":401/],
    ['text', /^text\/plain/, /^client_secret is not/],
    ['html', /^text\/html/, /^<html>/],
    ['empty', /^undefined$/, /^$/],
  ])('has the form %s, and quotes nothing', async (errorForm, type, body) => {
    await start({ errorForm });
    const reply = await askToken(sandbox, undefined, { client_secret: 'canary' });
    expect(reply.status).toBe(401);
    expect(`${reply.headers['content-type']}`).toMatch(type);
    expect(reply.text).toMatch(body);
    expect(reply.text).not.toContain('canary');
  });

  it('quotes everything only where it was told to', async () => {
    await start({ errorForm: 'echoing' });
    const reply = await askToken(sandbox, undefined, { client_secret: 'canary' });
    expect(reply.json.request).toMatchObject({ client_secret: 'canary', client_id: sandbox.clientId });
    expect(JSON.stringify(sandbox.ledger.entries())).not.toContain('canary');
  });
});

describe('a revoked access key', () => {
  it.each([
    ['invalid_grant', 400],
    ['access_denied', 403],
    ['not_found', 404],
    ['invalid_client', 401],
  ] as const)('gets %s', async (revokedKey, status) => {
    await start({ revokedKey });
    sandbox.revokeAccessKey(sandbox.accessKeys[0] ?? '');
    expect(await askToken(sandbox)).toMatchObject({ status, json: { error: revokedKey } });
  });

  it('gets a token that no resource accepts', async () => {
    await start({ revokedKey: 'token' });
    sandbox.revokeAccessKey(sandbox.accessKeys[0] ?? '');
    expect((await echo(sandbox, await tokenFor(sandbox))).status).toBe(401);
  });

  it('may leave its tokens as they are', async () => {
    await start({ revokedKeyEndsTokens: false });
    const token = await tokenFor(sandbox);
    sandbox.revokeAccessKey(sandbox.accessKeys[0] ?? '');
    expect((await echo(sandbox, token)).status).toBe(200);
  });
});

describe('profile settings', () => {
  it('that do not exist, or not with this value, are refused and change nothing', async () => {
    await start({});
    const changes = { shpe: 'odd', lifetimeSeconds: -1, odd: { wraped: true }, revokePrevious: 'yes' } as object;
    expect(() => sandbox.setProfile(changes)).toThrow(
      /wrapped[\s\S]*lifetimeSeconds[\s\S]*revokePrevious[\s\S]*shpe[\s\S]*shape/,
    );
    expect(sandbox.profile).toEqual({ ...DEFAULT_PROFILE, lifetimeSeconds: 600 });
    await expect(startSandbox({ profile: { shape: 'round' as 'odd' } })).rejects.toThrow('profile.shape');
  });

  it('are each labelled as assumed', async () => {
    await start({});
    const labelled = FACTS.filter((fact) => fact.setting).map((fact) => [fact.setting, fact.basis]);
    expect(Object.fromEntries(labelled)).toEqual(
      Object.fromEntries(Object.keys(DEFAULT_PROFILE).map((name) => [name, 'assumed'])),
    );
  });

  it('in force are described in words', async () => {
    await start({ shape: 'odd', revokedKey: 'access_denied', odd: { lifetimeAs: 'string', wrapped: false } });
    const { json } = await call(`${sandbox.portalUrl}/api/facts`);
    const told = Object.fromEntries(json.map(({ setting, statement }: Fact) => [setting, statement]));
    expect(told).toMatchObject({
      acceptForms: 'Forms and HTTP Basic are accepted too: no.',
      lifetimeSeconds: 'Lifetime in seconds: 600.',
      odd: 'Lifetime as: String of seconds. Names in camelCase: yes. Wrapped in data: no.',
      revokedKey: 'A revoked access key gets: 403 access_denied.',
    });
  });
});
