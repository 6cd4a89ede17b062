/** How `token` and `doctor` reach the service: proxy, certificate authorities and client certificate. */

import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import nodeTls, { createSecureContext, rootCertificates, type SecureContextOptions } from 'node:tls';
import { type Terminal, UsageError } from './command.ts';
import { isLoopback } from './environment.ts';

export const NETWORK_FLAGS = { ca: { type: 'string' }, cert: { type: 'string' }, key: { type: 'string' } } as const;

/** The lines of a usage text that describe {@link readNetwork}. */
export const NETWORK_USAGE = `  --ca F                  PEM file of certificate authorities to trust in addition to Node's own; NODE_EXTRA_CA_CERTS works too
  --cert F, --key F       PEM files of a client certificate and its key, for mutual TLS`;

export interface Network {
  /** Options for every TLS connection to the service. */
  readonly tls: SecureContextOptions;
  /** `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, if one is set and this Node's agents support them. */
  readonly proxyEnv?: Readonly<Record<string, string>>;
}

const PROXY_VARIABLES = ['HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY', 'https_proxy', 'http_proxy', 'no_proxy'];

/** Since Node 22.21 and 24.5 agents take a proxy from `proxyEnv`. */
const supportsProxy = process.allowedNodeEnvironmentFlags.has('--use-env-proxy');

/** Reads flags and environment. Warns of a proxy that this Node cannot use, unless the service is on this machine. */
export function readNetwork(
  flags: { readonly [F in keyof typeof NETWORK_FLAGS]?: string | undefined },
  baseUrl: URL,
  { env, err }: Terminal,
): Network {
  const proxyEnv: Record<string, string> = {};
  for (const name of PROXY_VARIABLES) if (env[name]) proxyEnv[name] = env[name];
  const isHttps = baseUrl.protocol === 'https:';
  const proxy = (isHttps ? ['HTTPS_PROXY', 'https_proxy'] : ['HTTP_PROXY', 'http_proxy']).find(
    (name) => proxyEnv[name],
  );
  const usesProxy = proxy !== undefined && !isLoopback(baseUrl);
  if (usesProxy && !supportsProxy) {
    const needed = 'Node supports proxies from 22.21 and 24.5 on';
    err.write(`warning: ${proxy} is ignored: this is Node ${process.versions.node}, and ${needed}\n`);
  }
  const tls = readTls(flags, env);
  if (!usesProxy || !supportsProxy) return { tls };
  if (proxyEnv[proxy]?.startsWith('https:') && flags.ca !== undefined) trustByDefault(pemIn('--ca', flags.ca));
  return { tls, proxyEnv };
}

/** For the connection to an https proxy, which takes no options of its own. Every Node that supports proxies has both. */
function trustByDefault(ca: string): void {
  const { getCACertificates, setDefaultCACertificates } = nodeTls as unknown as DefaultCertificates;
  setDefaultCACertificates([...getCACertificates('default'), ca]);
}

/** Missing from Node 20's types. */
interface DefaultCertificates {
  getCACertificates(type: 'default'): string[];
  setDefaultCACertificates(certificates: string[]): void;
}

function readTls(
  { ca, cert, key }: { readonly [F in keyof typeof NETWORK_FLAGS]?: string | undefined },
  env: Terminal['env'],
): SecureContextOptions {
  if ((cert === undefined) !== (key === undefined)) throw new UsageError('--cert and --key: give both, or neither');
  // The option `ca` replaces Node's own list and NODE_EXTRA_CA_CERTS, so it has to repeat both.
  const extra = env.NODE_EXTRA_CA_CERTS ? [pemIn('NODE_EXTRA_CA_CERTS', env.NODE_EXTRA_CA_CERTS)] : [];
  const options = {
    ...(ca !== undefined && { ca: [...rootCertificates, ...extra, pemIn('--ca', ca)] }),
    ...(cert !== undefined && key !== undefined && { cert: pemIn('--cert', cert), key: pemIn('--key', key) }),
  };
  try {
    createSecureContext(options);
  } catch (error) {
    throw new UsageError(
      `--ca, --cert, --key: no usable certificate or key (${(error as NodeJS.ErrnoException).code})`,
    );
  }
  return options;
}

function pemIn(name: string, path: string): string {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`${name}: the file cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  if (!text.includes('-----BEGIN ')) throw new UsageError(`${name}: expected a PEM file`);
  return text;
}

/** An agent for the scheme of this URL. */
export function agentFor({ protocol }: URL, { tls, proxyEnv }: Network): http.Agent {
  // `proxyEnv` is missing from Node 20's types.
  const options: https.AgentOptions & { proxyEnv?: object } = { ...tls, ...(proxyEnv && { proxyEnv }) };
  return protocol === 'https:' ? new https.Agent(options) : new http.Agent(options as http.AgentOptions);
}
