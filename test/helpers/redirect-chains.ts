import type { IncomingHttpHeaders } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { callRules, ownerFetchFor, rulesOfSource } from '../../src/calling/owner-fetch.ts';
import type { Traits } from './adapter-suite.ts';
import { LOOPBACK_CERTIFICATE } from './loopback-certificate.ts';
import { NumberedTokens } from './numbered-tokens.ts';
import { ResourceService } from './resource-service.ts';

/** Servers by name: the home and its annex may have the token. */
const SERVERS = {
  home: 'https',
  annex: 'https',
  'plain home': 'http',
  foreign: 'https',
  'plain foreign': 'http',
} as const;
type ServerName = keyof typeof SERVERS;

/** The caller's own credentials, meant for the origin that it calls. */
const OWN = { authorization: 'Basic mine', cookie: 'a=b', 'proxy-authorization': 'Basic x' };

/**
 * Chains of redirects: each hop's server, and the credentials that arrive there. `all` are the token and the caller's own;
 * a `refused` hop is never made.
 */
const CHAINS: readonly (readonly `${ServerName}: ${'all' | 'token' | 'none' | 'refused'}`[])[] = [
  ['home: all', 'home: all'],
  ['home: all', 'annex: token', 'annex: token'],
  ['home: all', 'annex: token', 'home: token'],
  ['home: all', 'foreign: none', 'foreign: none'],
  ['home: all', 'foreign: none', 'home: none', 'annex: none'],
  ['home: all', 'annex: token', 'foreign: none', 'annex: none'],
  ['home: all', 'plain home: refused'],
  ['home: all', 'plain foreign: refused'],
  ['home: all', 'annex: token', 'plain home: refused'],
  ['home: all', 'foreign: none', 'plain home: refused'],
  ['home: all', 'foreign: none', 'plain foreign: refused'],
  ['home: all', 'foreign: none', 'home: none', 'plain foreign: refused'],
  ['plain home: all', 'home: token', 'plain home: refused'],
  ['plain home: all', 'plain foreign: none', 'plain home: none', 'home: none', 'annex: none'],
  ['plain home: all', 'plain foreign: none', 'foreign: none', 'plain foreign: refused'],
];

/** Every client sends the same credentials along the same chains, and never goes from https to http. */
export function redirectChains({ makeClient, causeOf = (thrown) => thrown }: Traits): void {
  const services = new Map<string, ResourceService>();
  const originOf = (name: ServerName) => services.get(name)?.origin ?? '';
  let chain: { hops: readonly string[]; status: number };
  let arrived: string[];

  beforeAll(async () => {
    for (const [name, scheme] of Object.entries(SERVERS)) {
      const service = await ResourceService.start(({ path, headers }, response) => {
        arrived.push(`${name}: ${carriedIn(headers)}`);
        const at = Number(path.slice(1)) + 1;
        const next = chain.hops[at];
        if (!next) response.end('end');
        else response.writeHead(chain.status, { location: `${originOf(serverOf(next))}/${at}` }).end();
      }, scheme);
      services.set(name, service);
    }
  });
  afterAll(async () => {
    for (const service of services.values()) await service[Symbol.asyncDispose]();
  });

  for (const hops of CHAINS) {
    it.each([302, 308])(`goes ${hops.join(' → ')}, with status %i`, async (status) => {
      chain = { hops, status };
      arrived = [];
      const tokens = new NumberedTokens();
      const rules = callRules(
        {
          allowedOrigins: [originOf('home'), originOf('annex'), originOf('plain home')],
          present: (token, headers) => headers.set('x-token', token.value),
        },
        rulesOfSource(undefined),
      );
      const client = makeClient(ownerFetchFor(tokens, 'key', rules), { ca: LOOPBACK_CERTIFICATE });
      const url = `${originOf(serverOf(hops[0]))}/0`;
      const called = client(url, { method: 'POST', body: 'text', headers: OWN });
      const outcome = await called.catch((error: unknown) => causeOf(error));
      const made = hops.filter((hop) => !hop.endsWith('refused'));
      expect(arrived).toEqual(made);
      if (made.length < hops.length)
        expect(outcome).toMatchObject({ message: expect.stringContaining('https to http') });
      else expect(outcome).toEqual({ status: 200, body: 'end' });
      expect(tokens.accepted).toEqual(/all|token/.test(hops.at(-1) ?? '') ? ['t1'] : []);
    });
  }
}

const serverOf = (hop = '') => hop.split(':')[0] as ServerName;

const CARRIED: Record<string, string> = {
  'authorization,cookie,proxy-authorization,x-token': 'all',
  // axios drops Proxy-Authorization at every redirect.
  'authorization,cookie,x-token': 'all',
  'x-token': 'token',
  '': 'none',
};

function carriedIn(headers: IncomingHttpHeaders): string {
  const sent = { ...OWN, 'x-token': 't1' };
  const names = Object.entries(sent).flatMap(([name, value]) => (headers[name] === value ? [name] : []));
  return CARRIED[names.join()] ?? names.join();
}
