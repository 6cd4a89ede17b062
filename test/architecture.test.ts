/** The sequence diagrams against what really happens: a miss (`docs/architecture.md`), a fleet's cold start (`docs/fleet.md`). */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { FailureScopes } from '../src/failures/failure-scopes.ts';
import { OwnerTokenError, OwnerTokenRegistry, type TokenSource } from '../src/index.ts';
import { Dispatch } from '../src/registry/dispatch.ts';
import { Flights } from '../src/registry/flights.ts';
import { RequestQueue } from '../src/registry/request-queue.ts';
import { noRedis } from './helpers/redis-server.ts';
import { ROOT } from './helpers/source-files.ts';
import { type Message, TracedFleet } from './helpers/traced-fleet.ts';

const trace = vi.hoisted((): string[] => []);

vi.mock('../src/registry/slot.ts', async (importOriginal) => {
  const slot = await importOriginal<typeof import('../src/registry/slot.ts')>();
  const traced = <F extends (...args: never[]) => unknown>(name: string, call: F) =>
    ((...args) => {
      trace.push(`slot.ts ${name}`);
      return call(...args);
    }) as F;
  return {
    ...slot,
    decide: traced('decide', slot.decide),
    succeeded: traced('succeeded', slot.succeeded),
    failed: traced('failed', slot.failed),
  };
});

const CLASSES = {
  'flights.ts': Flights,
  'dispatch.ts': Dispatch,
  'request-queue.ts': RequestQueue,
  'failure-scopes.ts': FailureScopes,
};

/** The calls that the picture draws with solid arrows: receiver and function, `succeeded` or `failed`. */
function drawnWalk(outcome: 'succeeded' | 'failed'): string[] {
  const page = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
  const [, diagram = ''] = /```mermaid\nsequenceDiagram\n([^`]*)```/.exec(page) ?? [];
  const nameOf = new Map([...diagram.matchAll(/participant (\w) as (.*)/g)].map(([, id, name]) => [id, name]));
  return [...diagram.matchAll(/\w->>(\w): (.*)/g)].map(([, receiver, text = '']) => {
    const functions = [...text.matchAll(/(\w+)\(/g)].map(([, name]) => name ?? '');
    return `${nameOf.get(receiver)} ${functions.find((name) => name === outcome) ?? functions[0]}`;
  });
}

async function tracedWalk(drawn: readonly string[], source: TokenSource): Promise<string[]> {
  for (const [file, { prototype }] of Object.entries(CLASSES)) {
    for (const name of drawn.filter((each) => each.startsWith(`${file} `)).map((each) => each.split(' ')[1] ?? '')) {
      const methods = prototype as unknown as Record<string, (...args: unknown[]) => unknown>;
      const method = methods[name];
      vi.spyOn(methods, name).mockImplementation(function (this: unknown, ...args) {
        trace.push(`${file} ${name}`);
        return method?.apply(this, args);
      });
    }
  }
  trace.length = 0;
  await using registry = new OwnerTokenRegistry({ source });
  await registry.getToken('owner').catch(() => {});
  vi.restoreAllMocks();
  // The queue is asked again after each start and end. The picture draws the first time.
  return [...new Set(trace)];
}

it.each(['succeeded', 'failed'] as const)(
  'a miss that %s makes the calls of the picture, in its order',
  async (outcome) => {
    const drawn = drawnWalk(outcome);
    expect(drawn.length).toBeGreaterThan(8);
    const source: TokenSource = {
      async requestToken() {
        trace.push('the source requestToken');
        if (outcome === 'failed') throw new OwnerTokenError('owner_refused', 'refused');
        return { token: 'token', response: { expires_in: 60 } };
      },
    };
    expect(await tracedWalk(drawn, source)).toEqual(drawn);
  },
);

/** The arrows of the picture of a fleet, as {@link Message}s. What follows a second colon is an explanation. */
function drawnMessages(): { message: Message; onlyFirstCall: boolean }[] {
  const page = readFileSync(join(ROOT, 'docs/fleet.md'), 'utf8');
  const [, diagram = ''] = /```mermaid\nsequenceDiagram\n([^`]*)```/.exec(page) ?? [];
  let onlyFirstCall = false;
  return diagram.split('\n').flatMap((line) => {
    if (/^ *(opt|end)\b/.test(line)) onlyFirstCall = line.includes('opt');
    const [, from, to, texts] = /(\w)--?>>(\w): ([^:]*)/.exec(line) ?? [];
    return texts?.split(', ').map((text) => ({ message: `${from}>${to}: ${text}`, onlyFirstCall })) ?? [];
  });
}

describe.skipIf(noRedis)('the picture of a fleet', () => {
  const isOf = (id: string) => (message: Message) => message.slice(0, 3).includes(id);
  const isSent = (message: Message) => /^[AB]/.test(message);

  it.each(['their first call', 'a further owner'])(
    'draws the messages of three replicas at %s, in the order of each replica',
    async (when) => {
      const drawn = drawnMessages().filter(({ onlyFirstCall }) => when === 'their first call' || !onlyFirstCall);
      const expected = drawn.map(({ message }) => message);
      expect(expected.length).toBeGreaterThan(9);
      await using fleet = await TracedFleet.start();
      let messages = await fleet.messagesFor('owner');
      if (when === 'a further owner') messages = await fleet.messagesFor('further owner');
      for (const [follower = '', other = ''] of ['BC', 'CB']) {
        // The picture has one line for both followers.
        const seen = messages
          .filter((message) => !isOf(other)(message))
          .map((message) => message.slice(0, 3).replace(follower, 'B') + message.slice(3));
        for (const id of ['A', 'B', 'S']) expect(seen.filter(isOf(id))).toEqual(expected.filter(isOf(id)));
        expect(seen.filter(isSent)).toEqual(expected.filter(isSent));
      }
    },
  );
});
