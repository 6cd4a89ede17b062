/**
 * The likely cause of a failed token request, for someone at a terminal. The library classifies a failure for a running
 * backend; here there is one request, made by hand, so a wrong address or a typing error is the first suspect.
 */

import { connect } from 'node:tls';
import type { EndpointFailure, OwnerTokenError, OwnerTokenErrorCode } from '../index.ts';
import { parseUrl } from '../parse-url.ts';
import { withDeadline } from './deadline.ts';
import { type Credentials, TOKEN_PATH, withPath } from './environment.ts';
import { hasAccessKey, type RequestShape } from './request-shape.ts';

/** What is known of a failed request. */
interface FailedRequest {
  readonly error: OwnerTokenError;
  /** What the endpoint passed to `classifyFailure`. */
  readonly failure: EndpointFailure | undefined;
  /** The `Location` header of the answer. */
  readonly location: string | undefined;
  /** Whether there was a connection. */
  readonly isConnected: boolean;
  /** Whether a client certificate was given. */
  readonly hasCertificate: boolean;
  readonly credentials: Credentials;
  readonly shape: RequestShape;
}

/** Facts found by connecting to the service again, without sending a secret. */
interface Evidence {
  /** The base URL is http, but its port speaks TLS. */
  readonly speaksTls: boolean;
  /** The base URL is that of a sandbox's portal. */
  readonly isPortal: boolean;
}

const LOOK_TIMEOUT_MS = 2_000;

/**
 * What the service says, and one or two sentences about the cause and the next step. They quote nothing that was sent.
 */
export async function diagnose(failed: FailedRequest, signal: AbortSignal): Promise<string> {
  return adviceOn(failed, {
    speaksTls: mayBeTls(failed) && (await look(signal, () => handshakes(failed.credentials.baseUrl))),
    isPortal: isAddressStatus(failed.error.status) && (await look(signal, (own) => isPortal(failed.credentials, own))),
  });
}

/** A port that speaks TLS cuts a plain request off, answers with a TLS alert, or with a bare 400. */
function mayBeTls({ error, failure, credentials }: FailedRequest): boolean {
  if (credentials.baseUrl.protocol !== 'http:') return false;
  const { kind, status, oauthError } = failure ?? {};
  if (kind === 'status') return status === 400 && oauthError === undefined;
  return (kind === 'network' && error.cause?.code !== 'ECONNREFUSED') || kind === 'body' || kind === 'timeout';
}

/** Statuses that point to a wrong URL rather than to a refusal. */
const isAddressStatus = (status: number | undefined): boolean => [404, 405, 410, 501].includes(status ?? 0);

async function look(signal: AbortSignal, at: (signal: AbortSignal) => Promise<boolean>): Promise<boolean> {
  try {
    return await withDeadline(LOOK_TIMEOUT_MS, signal, at);
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

function handshakes({ hostname, port }: URL): Promise<boolean> {
  const host = hostname.replace(/^\[|\]$/g, '');
  const socket = connect({ host, port: Number(port || 80), rejectUnauthorized: false, timeout: LOOK_TIMEOUT_MS });
  return new Promise((resolve) => {
    const end = (found: boolean) => {
      socket.destroy();
      resolve(found);
    };
    socket.once('secureConnect', () => end(true));
    socket.on('error', () => end(false));
    socket.once('timeout', () => end(false));
  });
}

async function isPortal({ baseUrl }: Credentials, signal: AbortSignal): Promise<boolean> {
  const answer = await fetch(withPath(baseUrl, '/livez'), { redirect: 'manual', signal });
  const { service } = (await answer.json()) as { service?: unknown };
  return service === 'owner-token-registry sandbox portal';
}

/** The advice for an https URL whose port does not speak TLS. */
export const NOT_TLS =
  'OTR_BASE_URL begins with https://, but this port does not speak TLS. Check the port, or use http:// on this machine.';

/** OpenSSL's codes for an answer that is not TLS. */
const NOT_TLS_CODES = /^(EPROTO|ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST))$/;

/** Whether a handshake failed with this code because the port does not speak TLS. */
export const isNotTls = (code: string | undefined): boolean => NOT_TLS_CODES.test(code ?? '');

/** OpenSSL's codes for a certificate that is not valid here. */
const CERTIFICATE_CODES = /^(UNABLE_TO_|CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_|ERR_TLS_CERT_)/;

/** The advice for a certificate with this problem, given as an OpenSSL code. */
export function adviceOnCertificate(problem: string): string {
  if (/EXPIRED/.test(problem)) return 'The certificate has expired, or the clock of this machine is wrong.';
  if (/NOT_YET/.test(problem)) return 'The certificate is not yet valid, or the clock of this machine is wrong.';
  if (/ALTNAME|HOSTNAME/.test(problem)) return 'The certificate was issued for another name. Is OTR_BASE_URL right?';
  return 'This machine does not trust the issuer. If you do, pass its certificate with --ca or NODE_EXTRA_CA_CERTS.';
}

function adviceOnTls(problem: string, hasCertificate: boolean): string | undefined {
  if (isNotTls(problem)) return NOT_TLS;
  if (CERTIFICATE_CODES.test(problem)) return adviceOnCertificate(problem);
  if (/CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE|ALERT_BAD_CERTIFICATE/.test(problem)) {
    return `The service ended the TLS handshake. ${adviceOnClientCertificate(hasCertificate)}`;
  }
  return undefined;
}

const adviceOnClientCertificate = (hasCertificate: boolean): string =>
  hasCertificate
    ? 'Does it accept the certificate of --cert, and is that for this service?'
    : 'Does it require a client certificate (--cert and --key)?';

function adviceOn(failed: FailedRequest, { speaksTls, isPortal }: Evidence): string {
  const { error, failure, location, isConnected, hasCertificate, credentials, shape } = failed;
  const unnamedValue = hasAccessKey(shape) ? UNNAMED_VALUE : UNNAMED_VALUE_WITHOUT_KEY;
  const { status, cause, code, oauthError } = error;
  const { kind, body } = failure ?? {};
  if (speaksTls) return 'OTR_BASE_URL begins with http://, but this port speaks TLS. Use https://.';
  const onTls = kind === 'tls' ? adviceOnTls(cause?.code ?? '', hasCertificate) : undefined;
  if (onTls) return onTls;
  if (isPortal) {
    return 'OTR_BASE_URL is the address of the sandbox portal. Set it to the token service, which has another port.';
  }
  if (cause?.code === 'ECONNREFUSED') {
    return 'Nothing is listening on the host and port of OTR_BASE_URL (or of the proxy). Is the service running?';
  }
  if (code === 'redirect_refused') return adviceOnRedirect(location, credentials);
  if (asksForCertificate(error, body)) {
    return `A gateway answered, not the service. ${adviceOnClientCertificate(hasCertificate)}`;
  }
  if (isAddressStatus(status)) return adviceOnAddress(credentials, shape, oauthError);
  if (status === 407) return 'The proxy requires authentication. Put user and password into the URL of HTTPS_PROXY.';
  if (status === 429) return `Too many requests. ${waitFor(error)}`;
  if (kind === 'body' && isHtml(body)) {
    return 'The response is an HTML page, not JSON. Does OTR_BASE_URL point to a website or a login page?';
  }
  if (kind === 'status' && code === 'invalid_response') return `${GATEWAY} ${unnamedValue}`;
  if (kind === 'timeout' && isConnected) return HANGS;
  const onRequest = adviceOnRequest(error, shape);
  if (onRequest) return onRequest;
  if (code === 'owner_refused' && !isOwnersError(oauthError)) {
    return `The service does not say which value it refuses. ${unnamedValue}`;
  }
  if (error.retryAfterMs !== undefined) return `The service is unavailable. ${waitFor(error)}`;
  return adviceOnCode(error);
}

/** The next step for each code that says enough by itself. */
const ADVICE: Readonly<Partial<Record<OwnerTokenErrorCode, string>>> = {
  owner_refused:
    'The service accepts the client but refuses this owner. Is OTR_ACCESS_KEY current, and for this service?',
  client_refused: 'The service refuses the client. Check OTR_CLIENT_ID and OTR_CLIENT_SECRET.',
  rate_limited: 'Too many requests. Try again later.',
  endpoint_unavailable: 'No usable response was received. Is OTR_BASE_URL right, and can this machine reach it?',
  invalid_response: 'The response holds no token. Does OTR_BASE_URL point to the token service?',
  redirect_refused: 'Secrets are never sent to a redirect target. Set OTR_BASE_URL to the final address.',
  invalid_access_key: 'Set OTR_ACCESS_KEY to the access key of one owner, from the administration portal.',
};

const adviceOnCode = ({ code, retryable }: OwnerTokenError): string =>
  ADVICE[code] ?? (retryable ? 'Try again later.' : 'It will fail again unless something changes.');

const UNNAMED_VALUE = 'Check OTR_CLIENT_ID, OTR_CLIENT_SECRET and OTR_ACCESS_KEY.';

const UNNAMED_VALUE_WITHOUT_KEY = 'Check OTR_CLIENT_ID and OTR_CLIENT_SECRET. Does it require an access key?';

const GATEWAY =
  'The response is an HTML page: a gateway such as a firewall or a proxy may have refused the request. If it is the service itself:';

const HANGS =
  'The service accepts connections but does not answer in time. Is it overloaded, or does it wait for something behind it? A longer --timeout of doctor shows whether it answers at all.';

/** nginx has statuses of its own for this (495, 496), but sends 400 and says it in the page. */
function asksForCertificate({ status }: OwnerTokenError, body: unknown): boolean {
  return status === 495 || status === 496 || (isHtml(body) && /(ssl|client) certificate/i.test(String(body)));
}

/** The next step if the service does not accept the form of the request. */
function adviceOnRequest({ status, oauthError }: OwnerTokenError, shape: RequestShape): string | undefined {
  if (status === 415) return 'The service does not take this encoding. Try --form or --basic (option tokenRequest).';
  if (oauthError === 'invalid_request') {
    return 'The service misses a parameter, or does not read this encoding: try --form or --basic, or other names with --parameter (option tokenRequest).';
  }
  if (oauthError === 'unsupported_grant_type') {
    return 'The service does not offer the client credentials grant here, or does not read this encoding: try --form or --basic (option tokenRequest).';
  }
  if (oauthError === 'invalid_scope' && shape.extra?.scope !== undefined) {
    return 'The service accepts the client but refuses the scope. Is the scope of --extra (OTR_TOKEN_EXTRA) right, and may this client have it?';
  }
  if (isOwnersError(oauthError) && !hasAccessKey(shape)) {
    return 'The service accepts the client but refuses the request. Does it require an access key, or a scope (--extra scope=…)?';
  }
  return undefined;
}

/** The error codes with which a service accepts the client and refuses the owner. */
const isOwnersError = (oauthError: string | undefined): boolean =>
  ['invalid_grant', 'invalid_scope', 'access_denied'].includes(oauthError ?? '');

const isHtml = (body: unknown): boolean => typeof body === 'string' && /^\s*<(!doctype|html|head|body)\b/i.test(body);

const waitFor = ({ retryAfterMs }: OwnerTokenError): string =>
  retryAfterMs === undefined ? 'Try again later.' : `Try again in ${Math.ceil(retryAfterMs / 1000)} s (Retry-After).`;

function adviceOnAddress(
  { baseUrl, tokenPath }: Credentials,
  shape: RequestShape,
  oauthError: string | undefined,
): string {
  if (tokenPath !== undefined && tokenPath !== TOKEN_PATH) {
    return 'There is no token endpoint at this address. Are OTR_BASE_URL and the path of the token endpoint right?';
  }
  const path = baseUrl.pathname.replace(/\/+$/, '');
  const part = ['/auth/v1', '/auth'].find((end) => path.endsWith(end));
  const hint = part
    ? `Remove ${part} from its end: ${TOKEN_PATH} is appended.`
    : path === ''
      ? `The token endpoint is <OTR_BASE_URL>${TOKEN_PATH}; for another path, give --token-path.`
      : `It has a path, to which ${TOKEN_PATH} is appended: try it without the path, or give --token-path.`;
  const key = oauthError === undefined || !hasAccessKey(shape) ? '' : ' If the address is right, check OTR_ACCESS_KEY.';
  return `There is no token endpoint at this address. Is OTR_BASE_URL right? ${hint}${key}`;
}

/** Names the target's origin, unless it holds something that was sent. */
function adviceOnRedirect(location: string | undefined, credentials: Credentials): string {
  const { baseUrl, clientId, clientSecret, accessKey } = credentials;
  const target = parseUrl(location, baseUrl);
  const rule = 'Secrets are never sent to a redirect target.';
  if (!target) return `${rule} Set OTR_BASE_URL to the final address.`;
  if (target.origin === baseUrl.origin) {
    return `${rule} This redirect leads to another path on the same host: is it a login page, or is the path of OTR_BASE_URL wrong?`;
  }
  const echoes = [clientId, clientSecret, accessKey].some((sent) => target.host.includes(sent.toLowerCase()));
  if (echoes) return `${rule} Set OTR_BASE_URL to the final address.`;
  if (target.host === baseUrl.host && target.protocol === 'https:') return `${rule} Use https:// in OTR_BASE_URL.`;
  return `${rule} This redirect leads to ${target.origin}: set OTR_BASE_URL to it if you trust it.`;
}
