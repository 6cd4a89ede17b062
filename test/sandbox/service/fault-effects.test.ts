import { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isOwnerTokenError } from '../../../src/index.ts';
import { type FaultRule, type Sandbox, startSandbox } from '../../../src/sandbox/index.ts';
import { FAULT_KIND_NAMES, FAULT_KINDS, faultMembers } from '../../../src/sandbox/state/world/fault-kinds.ts';
import { fieldOf, type Schema } from '../../../src/sandbox/state/world/schema.ts';
import { settle } from '../../helpers/manual-clock.ts';
import { seeded } from '../../helpers/seeded.mjs';
import { askToken, raw, rawTokenRequest } from '../client.ts';

let sandbox: Sandbox;

beforeEach(async () => {
  sandbox = await startSandbox({ owners: 2 });
});

afterEach(() => sandbox.close());

describe('a rule', () => {
  const HEADER_NAMES = [
    'trailer',
    'Transfer-Encoding',
    'CONTENT-LENGTH',
    'Connection',
    'keep-alive',
    'upgrade',
    'expect',
  ];
  const MORE_NAMES = [
    'date',
    'set-cookie',
    '__proto__',
    'content-type',
    'content-encoding',
    'te',
    'host',
    'retry-after',
  ];
  const HEADER_TEXTS = ['', 'x', 'chunked', 'close', '0', '-1', 'gzip', 'x'.repeat(4000), 'caf\u00e9', 'x\r\ny: z'];
  const BODIES = ['', 'text', null, 0, {}, [], { toJSON: () => undefined }, 1n, () => {}, Symbol('x'), 'x'.repeat(1e6)];

  function valueFor(member: Schema, random: () => number): unknown {
    const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
    const { schema } = fieldOf(member);
    switch (schema.type) {
      case 'number':
        return pick([0, 1, 200, 204, 304, 599, 700, 0.5, '1', null]);
      case 'picklist':
        return pick([...(schema as unknown as { options: readonly unknown[] }).options, 'other']);
      case 'record':
        return Object.fromEntries([[pick([...HEADER_NAMES, ...MORE_NAMES]), pick(HEADER_TEXTS)]]);
      case 'unknown':
        return pick(BODIES);
      default:
        return pick([...HEADER_TEXTS, 0, 5, -1, '/elsewhere', 'https://elsewhere.example/']);
    }
  }

  const bare = (line: string) => `${line} HTTP/1.1\r\nhost: sandbox\r\nconnection: close\r\n\r\n`;

  /** Resolves when the one rule there is has been applied. */
  async function applied(): Promise<void> {
    while (sandbox.faults.list()[0]?.hits === 0) await settle();
  }

  it.each(FAULT_KIND_NAMES)(
    'of kind %s, with any values, is refused or carried out, and the sandbox goes on',
    async (kind) => {
      const random = seeded(1);
      const token = rawTokenRequest(sandbox);
      const requests = [token, token.replace('connection: close\r\n', '') + token];
      const path = FAULT_KINDS[kind].paths.includes('all') ? 'all' : 'token';
      if (path === 'all') requests.push(bare('GET /echo'), bare('HEAD /echo'), bare('PUT /'));
      let added = 0;
      for (let round = 0; round < 100; round++) {
        const members = faultMembers(kind).filter(([, { type }]) => type !== 'exact_optional' || random() < 0.7);
        const values = members.map(([name, member]) => [name, valueFor(member, random)]);
        const rule = { kind, target: { path }, when: { next: 1 } };
        try {
          sandbox.faults.add({ ...rule, ...Object.fromEntries(values) } as FaultRule);
        } catch (error) {
          if (!isOwnerTokenError(error)) throw error;
          continue;
        }
        added++;
        void raw(sandbox.url, requests[round % requests.length] ?? '');
        await applied();
        sandbox.clock.advance(60_000);
        await settle();
        sandbox.faults.clear();
      }
      expect(added).toBeGreaterThan(10);
      expect((await askToken(sandbox)).status).toBe(200);
    },
  );

  it('whose effect throws all the same gives a 500 and a line on the console', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue();
    sandbox.faults.add({ kind: 'status', status: 500, id: 'mine', when: { next: 1 } });
    vi.spyOn(ServerResponse.prototype, 'writeHead').mockImplementationOnce(() => {
      throw new Error('planted');
    });
    const { status, text } = await askToken(sandbox);
    expect([status, text]).toEqual([500, '']);
    expect(warned).toHaveBeenCalledExactlyOnceWith('sandbox: the fault mine cannot be carried out: Error: planted');
    await settle();
    expect(sandbox.ledger.entries()).toMatchObject([{ outcome: 'server_error', status: 500, fault: 'mine' }]);
    expect((await askToken(sandbox)).status).toBe(200);
  });
});
