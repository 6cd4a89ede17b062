/**
 * Sources that request tokens with an OAuth client, and pass on whatever it throws: the registry reads each of its errors right,
 * although each client puts the facts in a place of its own.
 */

import { OAuth2Client as Badgateway } from '@badgateway/oauth2-client';
import { ClientAuthentication, OAuth2Client as GoogleClient } from 'google-auth-library';
import * as oauth4webapi from 'oauth4webapi';
import * as openid from 'openid-client';
// @ts-expect-error: it has no types.
import { ClientCredentials } from 'simple-oauth2';
import { describe, expect, it } from 'vitest';
import { OwnerTokenRegistry } from '../../src/index.ts';
import { type Answer, json, LoopbackService, reset, status } from '../helpers/loopback-service.ts';

const ID = 'the-client';
const SECRET = 'the-secret';
const PATH = '/token';

/** Requests the token of an owner. */
type Request = (accessKey: string) => Promise<unknown>;

function openidClient(url: string, authentication: openid.ClientAuth): Request {
  const config = new openid.Configuration({ issuer: url, token_endpoint: url + PATH }, ID, {}, authentication);
  openid.allowInsecureRequests(config);
  return (accessKey) => openid.clientCredentialsGrant(config, { appliance_owner_scope: accessKey });
}

function oauth4webapiClient(url: string, authentication: oauth4webapi.ClientAuth): Request {
  const server = { issuer: url, token_endpoint: url + PATH };
  const client = { client_id: ID };
  return async (accessKey) => {
    const parameters = { appliance_owner_scope: accessKey };
    const options = { [oauth4webapi.allowInsecureRequests]: true };
    const request = oauth4webapi.clientCredentialsGrantRequest(server, client, authentication, parameters, options);
    return await oauth4webapi.processClientCredentialsResponse(server, client, await request);
  };
}

function badgateway(url: string, authenticationMethod: 'client_secret_basic' | 'client_secret_post'): Request {
  const credentials = { clientId: ID, clientSecret: SECRET, authenticationMethod };
  const client = new Badgateway({ server: url, tokenEndpoint: PATH, ...credentials });
  return (accessKey) => client.clientCredentials({ extraParams: { appliance_owner_scope: accessKey } });
}

function simpleOauth2(url: string, authorizationMethod: 'body' | 'header'): Request {
  const auth = { tokenHost: url, tokenPath: PATH };
  const client = new ClientCredentials({ client: { id: ID, secret: SECRET }, auth, options: { authorizationMethod } });
  return (accessKey) => client.getToken({ scope: accessKey });
}

/** It knows no client credentials, so the access key is the refresh token. */
function googleAuth(url: string, clientAuthentication: ClientAuthentication): Request {
  const endpoints = { oauth2TokenUrl: url + PATH };
  // Its own three retries would only make the test slow.
  const transporterOptions = { retryConfig: { retry: 0, noResponseRetries: 0 } };
  const options = { clientId: ID, clientSecret: SECRET, endpoints, clientAuthentication, transporterOptions };
  return (accessKey) => {
    const client = new GoogleClient(options);
    client.setCredentials({ refresh_token: accessKey });
    return client.getAccessToken();
  };
}

const CLIENTS: Record<string, (url: string) => Request> = {
  'openid-client with Basic': (url) => openidClient(url, openid.ClientSecretBasic(SECRET)),
  'openid-client with a form': (url) => openidClient(url, openid.ClientSecretPost(SECRET)),
  'oauth4webapi with Basic': (url) => oauth4webapiClient(url, oauth4webapi.ClientSecretBasic(SECRET)),
  'oauth4webapi with a form': (url) => oauth4webapiClient(url, oauth4webapi.ClientSecretPost(SECRET)),
  'badgateway with Basic': (url) => badgateway(url, 'client_secret_basic'),
  'badgateway with a form': (url) => badgateway(url, 'client_secret_post'),
  'simple-oauth2 with Basic': (url) => simpleOauth2(url, 'header'),
  'simple-oauth2 with a form': (url) => simpleOauth2(url, 'body'),
  'google-auth-library with Basic': (url) => googleAuth(url, ClientAuthentication.ClientSecretBasic),
  'google-auth-library with a form': (url) => googleAuth(url, ClientAuthentication.ClientSecretPost),
};

const challenge = { 'www-authenticate': 'Basic realm="tokens"' };

/** What the service does, and what the registry makes of the client's error. */
const FAULTS: [fault: string, answer: Answer, read: object][] = [
  ['refuses the client', json(401, { error: 'invalid_client' }), { code: 'client_refused', status: 401 }],
  ['asks for Basic', json(401, { error: 'invalid_client' }, challenge), { code: 'client_refused', status: 401 }],
  ['refuses the owner', json(400, { error: 'invalid_grant' }), { code: 'owner_refused', oauthError: 'invalid_grant' }],
  ['is down', status(503, '<html>down</html>'), { code: 'endpoint_unavailable', status: 503 }],
  [
    'says when it is back',
    json(503, {}, { 'retry-after': '7' }),
    { code: 'endpoint_unavailable', retryAfterMs: 7_000 },
  ],
  ['limits the rate', json(429, {}, { 'retry-after': '7' }), { code: 'rate_limited', retryAfterMs: 7_000 }],
  ['limits it in plain text', status(429, 'no', { 'retry-after': '7' }), { code: 'rate_limited', retryAfterMs: 7_000 }],
  ['drops the connection', reset(), { code: 'endpoint_unavailable', status: undefined }],
];

describe.each(Object.entries(CLIENTS))('an error of %s', (_name, clientFor) => {
  it.each(FAULTS)('is read right if the service %s', async (_fault, answer, read) => {
    await using service = await LoopbackService.start();
    service.always(answer);
    const request = clientFor(service.url);
    const source = { requestToken: async (accessKey: string) => ({ token: String(await request(accessKey)) }) };
    await using registry = new OwnerTokenRegistry({ source });
    await expect(registry.getToken('the-key')).rejects.toMatchObject(read);
    expect(service.calls).toHaveLength(1);
  });
});
