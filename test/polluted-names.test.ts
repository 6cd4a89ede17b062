/**
 * `Object.prototype` polluted with each name that `src/` reads from any object, as a merge of a request's JSON may
 * do it. A name that the platform itself reads from the objects of others breaks every program: those are left out.
 */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import ts from 'typescript';
import { expect, it, onTestFinished } from 'vitest';
import { OwnerTokenError, OwnerTokenRegistry, TokenEndpoint, type TokenSource } from '../src/index.ts';
import { ManualClock, settle } from './helpers/manual-clock.ts';
import { readSource } from './helpers/source-files.ts';

/** Read from property descriptors, from every value that is awaited, and from every iterator that is left early. */
const OF_THE_PLATFORM = ['get', 'set', 'value', 'writable', 'enumerable', 'configurable', 'then', 'return'];

/** The names of all members that the core reads: by access, by destructuring, with `in`, and as a string given to a helper. */
function namesRead(): string[] {
  const names = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyAccessExpression(node)) names.add(node.name.text);
    if (ts.isBindingElement(node) && ts.isObjectBindingPattern(node.parent)) {
      names.add((node.propertyName ?? node.name).getText());
    }
    if (ts.isStringLiteral(node) && /^[a-z_]\w*$/i.test(node.text)) names.add(node.text);
    ts.forEachChild(node, visit);
  };
  for (const { path, tree } of readSource()) {
    if (/^(?!sandbox|cli|page-engine|live-view\/page)/.test(path)) visit(tree);
  }
  return [...names]
    .filter((name) => !name.startsWith('#') && !(name in Object.prototype) && !OF_THE_PLATFORM.includes(name))
    .sort();
}

/** In place of real requests, whose options Node reads. Made before the pollution. */
function answers() {
  const json = (status: number, body: object) => new Response(JSON.stringify(body), { status });
  const responses = {
    a: [json(200, { access_token: 't-a', expires_in: 100 })],
    b: [json(200, { access_token: 't-b', expires_in: 100 })],
    refused: [json(400, { error: 'invalid_grant', error_description: 'gone' })],
    empty: [json(200, {}), json(200, {}), json(200, {})],
  };
  return (async (_url: unknown, { body }: { body: string }) => {
    const { appliance_owner_scope: key } = JSON.parse(body) as { appliance_owner_scope: keyof typeof responses };
    return responses[key].shift();
  }) as unknown as typeof fetch;
}

const own: TokenSource = {
  async requestToken(accessKey) {
    if (accessKey === 'refused') throw new OwnerTokenError('owner_refused', 'gone');
    if (accessKey === 'empty') return {} as never;
    if (accessKey === 'broken') throw new Error('broken');
    return { token: `t-${accessKey}` };
  },
};

/** What the calls of a registry come to, without waiting for anything but microtasks. */
async function outcomes(source: TokenSource, keys: readonly string[]): Promise<string[]> {
  const registry = new OwnerTokenRegistry({ source, maxOwners: 10, clock: new ManualClock(), random: () => 0.5 });
  const found: string[] = keys.map(() => 'hangs');
  keys.forEach((key, at) => {
    registry.getToken(key, key === 'b' ? { minValidityMs: 1 } : undefined).then(
      (token) => {
        found[at] = `${token.authorization} ${registry.peek(key) === token}`;
      },
      (error) => {
        found[at] = error instanceof OwnerTokenError ? `${error.code} ${error.failureScope}` : String(error);
      },
    );
  });
  await settle();
  for (const key of keys) {
    const state = registry.describe(key);
    found.push(`${state.phase} ${registry.reject(key, `t-${key}`)}`);
  }
  registry.resume();
  found.push(String(registry.forget('a')), String(registry.stats().owners));
  let closed = 'close hangs';
  void registry.close().then(
    () => {
      closed = 'closed';
    },
    (error) => {
      closed = String(error);
    },
  );
  await settle();
  found.push(closed);
  return found;
}

async function all(fetch: typeof globalThis.fetch): Promise<string[]> {
  const credentials = { baseUrl: 'https://service.example', clientId: 'id', clientSecret: 'secret' };
  const endpoint = new TokenEndpoint({ ...credentials, fetch, clock: new ManualClock() });
  return [
    ...(await outcomes(endpoint, ['a', 'b', 'refused', 'empty'])),
    ...(await outcomes(own, ['a', 'b', 'refused', 'empty', 'broken'])),
  ];
}

/** The first outcome that differs while `Object.prototype` has these names; undefined if none does. */
async function changedBy(names: readonly string[], clean: readonly string[]): Promise<string | undefined> {
  const fetch = answers();
  for (const name of names) {
    Object.defineProperty(Object.prototype, name, { value: 'polluted', configurable: true, writable: true });
  }
  const found = await all(fetch).catch((error) => [(error as Error).stack]);
  for (const name of names) delete (Object.prototype as Record<string, unknown>)[name];
  const at = found.findIndex((each, index) => each !== clean[index]);
  return at < 0 ? undefined : `${names}: ${found[at]} instead of ${clean[at]}`;
}

it('no name that the library reads changes the outcome of a call if Object.prototype has it', async () => {
  // So that requests are traced, too.
  const traced = 'tracing:owner-token-registry:request:start';
  const listener = () => {};
  subscribe(traced, listener);
  onTestFinished(() => void unsubscribe(traced, listener));
  const clean = await all(answers());
  expect(clean).toEqual(expect.arrayContaining(['Bearer t-a true', 'owner_refused owner', 'invalid_response owner']));
  const names = namesRead();
  expect(names.length).toBeGreaterThan(500);
  const changes: string[] = [];
  for (let from = 0; from < names.length; from += 32) {
    const several = names.slice(from, from + 32);
    // Many at once, because it is faster; one by one only to name the culprits.
    if ((await changedBy(several, clean)) === undefined) continue;
    const before = changes.length;
    for (const name of several)
      changes.push(...[await changedBy([name], clean)].filter((change) => change !== undefined));
    if (changes.length === before) changes.push(`together: ${several}`);
  }
  expect(changes).toEqual([]);
});
