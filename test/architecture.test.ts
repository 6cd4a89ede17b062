/** The sequence diagrams against what really happens: a miss (`docs/architecture.md`), a fleet's cold start (`docs/fleet.md`). */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { OwnerTokenError, OwnerTokenRegistry, type TokenSource } from '../src/index.ts';
import { OwnerTable } from '../src/registry/owners/owner-table.ts';
import { Requests } from '../src/registry/requests/requests.ts';
import { Scheduler } from '../src/registry/requests/scheduler.ts';
import { noRedis } from './helpers/redis-server.ts';
import { ROOT } from './helpers/source-files.ts';
import { type Message, TracedFleet } from './helpers/traced-fleet.ts';

/** The calls of a miss, in order, as the picture names them: receiver and function. */
const trace = vi.hoisted((): string[] => []);

vi.mock('../src/registry/owners/slot.ts', async (importOriginal) => {
  const slot = await importOriginal<typeof import('../src/registry/owners/slot.ts')>();
  const decide: typeof slot.decide = (...args) => {
    trace.push('registry.ts decide');
    return slot.decide(...args);
  };
  return { ...slot, decide };
});

vi.mock('../src/failures/reducer.ts', async (importOriginal) => {
  const reducer = await importOriginal<typeof import('../src/failures/reducer.ts')>();
  const reduce = (...args: Parameters<typeof reducer.reduce>) => {
    if (isOutcome(args[1])) trace.push('failures/reducer.ts reduce');
    return reducer.reduce(...args);
  };
  return { ...reducer, reduce };
});

/** The picture draws what follows from an outcome, not that a request was sent. */
const isOutcome = (event: unknown) => ['succeeded', 'failed'].includes((event as { kind?: string }).kind ?? '');

/** The calls that the picture draws with solid arrows. */
function drawnWalk(): string[] {
  const page = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
  const [, diagram = ''] = /```mermaid\nsequenceDiagram\n([^`]*)```/.exec(page) ?? [];
  const nameOf = new Map([...diagram.matchAll(/participant (\w) as (.*)/g)].map(([, id, name]) => [id, name]));
  return [...diagram.matchAll(/\w->>(\w): (\w+)/g)].map(([, receiver, name]) => `${nameOf.get(receiver)} ${name}`);
}

/** Notes each call of a method that the picture draws. */
function traceMethod(
  prototype: object,
  name: string,
  label: string,
  isDrawn: (event: unknown) => boolean = () => true,
) {
  const methods = prototype as Record<string, (...args: unknown[]) => unknown>;
  const method = methods[name];
  vi.spyOn(methods, name).mockImplementation(function (this: unknown, ...args) {
    if (isDrawn(args[0])) trace.push(label);
    return method?.apply(this, args);
  });
}

async function tracedWalk(source: TokenSource): Promise<string[]> {
  traceMethod(Requests.prototype, 'request', 'requests.ts request');
  traceMethod(Scheduler.prototype, 'enqueue', 'scheduler.ts enqueue');
  traceMethod(Scheduler.prototype, 'step', 'scheduler.ts step', isOutcome);
  traceMethod(OwnerTable.prototype, 'store', 'lifecycle.ts store');
  trace.length = 0;
  await using registry = new OwnerTokenRegistry({ source });
  await registry.getToken('owner').catch(() => {});
  vi.restoreAllMocks();
  return [...trace];
}

it.each(['succeeds', 'fails'] as const)('a miss that %s makes the calls of the picture, in its order', async (how) => {
  const drawn = drawnWalk();
  expect(drawn.length).toBeGreaterThan(6);
  const source: TokenSource = {
    async requestToken() {
      trace.push('the source requestToken');
      if (how === 'fails') throw new OwnerTokenError('owner_refused', 'refused');
      return { token: 'token', response: { expires_in: 60 } };
    },
  };
  expect(await tracedWalk(source)).toEqual(drawn);
});

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
