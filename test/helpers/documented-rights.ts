import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { isBefore7 } from './redis-server.ts';

/** The replicas' user, for their clients. */
export const USER = { username: 'otr', password: 'password' };

/** The rights that the fleet page names for a topology, as the arguments of `ACL SETUSER`. */
export function documentedRights(topology: 'standalone' | 'cluster' | 'sentinel'): string[] {
  const page = readFileSync('docs/fleet-setup.md', 'utf8');
  const [, line = ''] = /^ACL SETUSER otr (.*)$/m.exec(page) ?? [];
  const [row = ''] = new RegExp(`^- ${topology}: [^]*?(?=\\n- |\\n\\n)`, 'm').exec(page) ?? [];
  // Redis 6.2 has no sharded channels.
  const rights = [...row.matchAll(/[+&][\w|:*-]+/g)].map(([right]) => right);
  const known = rights.filter((right) => !isBefore7 || !/^\+(s(un)?subscribe|spublish)$/.test(right));
  return [USER.username, 'reset', ...line.split(' '), ...known];
}

/** The commands that the server denied, except the client's name, which clients send where they may. */
export async function denied(node: Redis): Promise<string[]> {
  const log = (await node.call('ACL', 'LOG')) as unknown[][];
  const commands = log.map((entry) => `${entry[entry.indexOf('object') + 1]}`);
  return commands.filter((command) => command !== (isBefore7 ? 'client' : 'client|setinfo'));
}
