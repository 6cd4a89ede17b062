/** How `token` and `doctor` reach the service: proxy, certificate authorities and client certificate. */

import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import nodeTls, { createSecureContext, rootCertificates, type SecureContextOptions } from 'node:tls';
import { parseUrl } from '../parse-url.ts';
import { type FlagValues, type Terminal, UsageError } from './command.ts';
import { isLoopback } from './environment.ts';

export const NETWORK_FLAGS = { ca: { type: 'string' }, cert: { type: 'string' }, key: { type: 'string' } } as const;

/** The lines of a usage text that describe {@link readNetwork}. */
export const NETWORK_USAGE = `  --ca F                  PEM file of certificate authorities to trust in addition to Node's own; NODE_EXTRA_CA_CERTS works too
  --cert F, --key F       PEM files of a client certificate and its key, for mutual TLS`;

export interface Network {
  /** Options for every TLS connection to the service. */
  readonly tls: SecureContextOptions;
  /** `https_proxy`, `http_proxy` and `no_proxy`, checked; absent where no proxy is set or this Node's agents support none. */
  readonly proxyEnv?: Readonly<Record<string, string>>;
}

/** Since Node 22.21 and 24.5 agents take a proxy from `proxyEnv`. */
const supportsProxy = process.allowedNodeEnvironmentFlags.has('--use-env-proxy');

const proxyVariable = ({ protocol }: URL): string => `${protocol.slice(0, -1)}_proxy`;

/**
 * Reads flags and environment. `urls` are those that requests go to. Warns of a proxy that this Node cannot use, unless it is for
 * this machine.
 */
export function readNetwork(
  flags: FlagValues<typeof NETWORK_FLAGS>,
  urls: readonly URL[],
  { env, err }: Terminal,
): Network {
  const proxyEnv: Record<string, string> = {};
  for (const variable of new Set(urls.filter((url) => !isLoopback(url)).map(proxyVariable))) {
    // In Node's order.
    const name = [variable, variable.toUpperCase()].find((each) => env[each]);
    if (name === undefined) continue;
    if (supportsProxy) {
      proxyEnv[variable] = readProxy(name, env[name]);
      continue;
    }
    const needed = 'Node supports proxies from 22.21 and 24.5 on';
    err.write(`warning: ${name} is ignored: this is Node ${process.versions.node}, and ${needed}\n`);
  }
  const tls = readTls(flags, env);
  const isSecure = Object.values(proxyEnv).some((proxy) => proxy.startsWith('https:'));
  if (isSecure && flags.ca !== undefined) trustByDefault(pemIn('--ca', flags.ca));
  return { tls, proxyEnv: { ...proxyEnv, no_proxy: env.no_proxy || env.NO_PROXY || '' } };
}

/** The URL of a proxy. Node ignores one that it cannot read, or fails, so the request would go elsewhere. */
function readProxy(name: string, text: string | undefined): string {
  const url = parseUrl(text);
  if (url && /^https?:$/.test(url.protocol) && isEncoded(`${url.username}:${url.password}`)) return url.href;
  throw new UsageError(`${name}: expected a URL such as http://proxy.example.com:8080`);
}

function isEncoded(text: string): boolean {
  try {
    return decodeURIComponent(text) !== '';
  } catch {
    return false;
  }
}

/** Whether a request to this URL goes through a proxy, unless `NO_PROXY` names its host. Never for this machine. */
export const mayUseProxy = (url: URL, { proxyEnv }: Network): boolean =>
  !isLoopback(url) && proxyEnv?.[proxyVariable(url)] !== undefined;

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

function readTls({ ca, cert, key }: FlagValues<typeof NETWORK_FLAGS>, env: Terminal['env']): SecureContextOptions {
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

/** An agent for this URL. */
export function agentFor(url: URL, network: Network): http.Agent {
  const { tls, proxyEnv } = network;
  // `proxyEnv` is missing from Node 20's types.
  const options: https.AgentOptions & { proxyEnv?: object } = {
    ...tls,
    ...(mayUseProxy(url, network) && { proxyEnv }),
  };
  return url.protocol === 'https:' ? new https.Agent(options) : new http.Agent(options as http.AgentOptions);
}
