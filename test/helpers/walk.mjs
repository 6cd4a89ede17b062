/**
 * Traces a call through the core: which functions it enters, in order, and in which files they are. A count is the same on
 * every machine. `node test/helpers/walk.mjs` prints the figures; `--functions` lists the functions of a miss.
 */

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';

const ROOT = join(import.meta.dirname, '../..');
const FOLDERS = ['', 'errors', 'reporting', 'registry', 'failures', 'endpoint', 'expiry', 'calling', 'redis'];
const ENTERED = '__entered';

/** Traces each kind of call once it is warm. */
export async function traceWalks() {
  const out = join(ROOT, 'reports', `walk-${process.pid}`);
  try {
    for (const folder of FOLDERS) compile(folder, out);
    globalThis[ENTERED] = () => {};
    const load = (path) => import(/* @vite-ignore */ pathToFileURL(join(out, path)).href);
    return await walkAll({ ...(await load('index.js')), ...(await load('redis/index.js')) });
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/** Compiles each file on its own, with a note at the beginning of each function. */
function compile(folder, out) {
  const names = readdirSync(join(ROOT, 'src', folder)).filter((name) => name.endsWith('.ts'));
  for (const name of names) {
    const path = join(folder, name);
    const { outputText } = ts.transpileModule(noted(path), {
      compilerOptions: {
        target: ts.ScriptTarget.ES2023,
        module: ts.ModuleKind.ESNext,
        rewriteRelativeImportExtensions: true,
        verbatimModuleSyntax: true,
      },
    });
    const file = join(out, path.replace(/\.ts$/, '.js'));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, outputText);
  }
}

function noted(path) {
  const text = readFileSync(join(ROOT, 'src', path), 'utf8');
  const tree = ts.createSourceFile(path, text, ts.ScriptTarget.ES2023, true);
  const insertions = [];
  const visit = (node) => {
    if (ts.isFunctionLike(node) && node.body) {
      const { line } = tree.getLineAndCharacterOfPosition(node.getStart(tree));
      const note = `${ENTERED}('${path}:${line + 1} ${nameOf(node)}')`;
      const start = node.body.getStart(tree);
      if (ts.isBlock(node.body)) insertions.push([start + 1, `${note};`]);
      else insertions.push([start, `(${note}, `], [node.body.end, ')']);
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  // From the end, so that no insertion moves the place of another.
  return insertions
    .sort(([a], [b]) => b - a)
    .reduce((code, [at, insertion]) => code.slice(0, at) + insertion + code.slice(at), text);
}

function nameOf(node) {
  const { name, parent } = node;
  if (ts.isConstructorDeclaration(node)) return `new ${parent.name?.text ?? ''}`;
  if (name) return name.getText();
  return parent && ts.isVariableDeclaration(parent) ? parent.name.getText() : '=>';
}

/** The kinds of calls, each against a real service on this machine. */
async function walkAll({ OwnerTokenRegistry, TokenEndpoint, SharedTokens, fromNodeRedis }) {
  let entered = [];
  globalThis[ENTERED] = (place) => void entered.push(place);
  const service = await startService();
  const source = new TokenEndpoint({ baseUrl: service.url, clientId: 'client', clientSecret: 'secret' });
  const registry = new OwnerTokenRegistry({ source });
  const redis = fakeRedis();
  const [leader, follower] = [1, 2].map(() => {
    const sealingKeys = [Buffer.from(Array.from({ length: 32 }, (_, index) => index))];
    const shared = new SharedTokens({ source, redis: fromNodeRedis(redis, { subscriber: redis }), sealingKeys });
    return new OwnerTokenRegistry({ source: shared });
  });
  const resource = (key) => registry.ownerFetch(key)(`${service.url}/resource`);
  const revoke = (key) => service.revoke(registry.peek(key)?.value);
  const kinds = {
    hit: { before: (key) => registry.getToken(key), call: (key) => registry.getToken(key) },
    'refused call': {
      before: (key) => registry.getToken(`wrong-${key}`).catch(() => {}),
      call: (key) => registry.getToken(`wrong-${key}`).catch(() => {}),
    },
    miss: { before: () => {}, call: (key) => registry.getToken(key) },
    failure: { before: () => {}, call: (key) => registry.getToken(`wrong-${key}`).catch(() => {}) },
    '401 with a new token': {
      before: async (key) => {
        await resource(key);
        revoke(key);
      },
      call: (key) => resource(key),
    },
    "leader's miss": { before: () => {}, call: (key) => leader.getToken(key) },
    "follower's miss": {
      before: async (key) => {
        await leader.getToken(key);
        redis.hideNext();
      },
      call: (key) => follower.getToken(key),
    },
  };
  const traces = {};
  for (const [kind, { before, call }] of Object.entries(kinds)) {
    // The first one is warming up. Of the others the shortest counts, because the clock samples itself every 10 ms.
    for (const key of ['warm', 1, 2, 3, 4, 5]) {
      // A success, so that no three failures in a row begin a check of the service.
      await registry.getToken(`${kind}-other-${key}`);
      await before(`${kind}-${key}`);
      entered = [];
      await call(`${kind}-${key}`);
      await new Promise(setImmediate);
      if (key === 1 || entered.length < traces[kind]?.length) traces[kind] = [...entered];
    }
  }
  for (const each of [registry, leader, follower]) await each.close();
  await source.close();
  await service.close();
  return {
    walks: Object.fromEntries(Object.entries(traces).map(([kind, places]) => [kind, figuresOf(places)])),
    entered: traces,
  };
}

/** A client of a Redis with one token per record. Its records are never rejected, expired or damaged. */
function fakeRedis() {
  const records = new Map();
  let listener = () => {};
  let isHidden = false;
  const reply = (...words) => [words[0], `${Date.now() * 1000}`, ...words.slice(1)];
  const run = async (key, words) => {
    const stored = records.get(key);
    if (words.length === 3) return reply('listed', '2', '0');
    if (words.length === 4) return reply('released');
    if (words.length === 8) {
      records.set(key, { generation: words[3], sealed: words[4] });
      return reply('stored');
    }
    if (isHidden) {
      isHidden = false;
      setImmediate(() => listener(key));
      return reply('wait', '3000000', stored.generation);
    }
    return stored ? reply('token', stored.generation, stored.sealed) : reply('lead', `${Date.now() * 1000}`);
  };
  return {
    isReady: true,
    eval: (_, { keys, arguments: words }) => run(keys[0], words),
    evalSha: (_, { keys, arguments: words }) => run(keys[0], words),
    async subscribe(_, onMessage) {
      const other = listener;
      listener = (message) => [other, onMessage].forEach((each) => void each(message));
    },
    async unsubscribe() {},
    /** As if the next call came just before the token: it has to wait for the wake-up. */
    hideNext() {
      isHidden = true;
    },
  };
}

function figuresOf(places) {
  const files = places.map((place) => place.slice(0, place.indexOf(':')));
  const moves = files.filter((file, index) => index > 0 && file !== files[index - 1]).length;
  const distinct = new Set(files).size;
  return {
    calls: places.length,
    functions: new Set(places).size,
    files: distinct,
    moves,
    returns: moves - (distinct - 1),
  };
}

/** Issues tokens to all owners but `wrong…`, and accepts each until it is revoked. */
async function startService() {
  const revoked = new Set();
  let issued = 0;
  const server = http.createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const answer = (status, content) => response.writeHead(status).end(JSON.stringify(content));
    if (request.url === '/resource') {
      answer(revoked.has(request.headers.authorization?.slice('Bearer '.length)) ? 401 : 200, {});
    } else if (body.includes('"wrong-')) answer(400, { error: 'invalid_grant' });
    else answer(200, { access_token: `token-${++issued}`, expires_in: 3600 });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    revoke: (token) => revoked.add(token),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

if (process.argv[1] === import.meta.filename) {
  const { walks, entered } = await traceWalks();
  console.table(walks);
  const kind = process.argv[2] === '--functions' ? (process.argv[3] ?? 'miss') : undefined;
  if (kind) console.log(entered[kind].join('\n'));
}
