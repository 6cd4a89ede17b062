import diagnostics from 'node:diagnostics_channel';
import { once } from 'node:events';
import http from 'node:http';
import http2 from 'node:http2';
import type net from 'node:net';
import { type AddressInfo, connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { expect, it, vi } from 'vitest';
import { OwnerTokenError, OwnerTokenRegistry } from '../../src/index.ts';
import type { Found, Frame, SentFrame } from '../../src/live-view/frames.ts';
import { type LiveView, type LiveViewOptions, liveView } from '../../src/live-view/index.ts';
import { leaksIn, SECRETS } from '../helpers/canaries.ts';
import { ManualClock, settle } from '../helpers/manual-clock.ts';
import { errorOf, keys } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

const OPEN = { public: true } as const;

/** A registry and its live view, with one manual clock. Owners are called by their keys in capitals. */
function viewed(options: LiveViewOptions = OPEN, source = ScriptedSource.answering()) {
  const clock = new ManualClock();
  const ownerLabel = (accessKey: string) => accessKey.toUpperCase();
  const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5, ownerLabel });
  return { clock, source, registry, view: liveView(registry, { clock, ...options }) };
}

/** A request to the view, over `fetch`. */
const ask = (view: LiveView, path = '/tokens/', init?: RequestInit) =>
  view.fetch(new Request(`http://backend.example${path}`, init));

const json = (body: object): RequestInit => {
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
};

/** The frames of an open page. */
class Frames {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #lanes: Frame['picture']['lanes'] = [];
  text = '';

  constructor(answer: Response) {
    this.#reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  }

  static async of(view: LiveView, query = ''): Promise<Frames> {
    return new Frames(await ask(view, `/tokens/events?${query}`));
  }

  /** The next frame, with the lanes that it leaves out. */
  async next(): Promise<Frame> {
    const { value } = await this.#reader.read();
    const text = Buffer.from(value ?? []).toString();
    this.text += text;
    const [, data] = /data: (.*)\n\n/.exec(text) ?? [];
    if (data === undefined) return this.next();
    const frame = JSON.parse(data) as SentFrame;
    this.#lanes = frame.picture.lanes ?? this.#lanes;
    return { ...frame, picture: { ...frame.picture, lanes: this.#lanes } };
  }

  close(): Promise<void> {
    return this.#reader.cancel();
  }
}

const search = async (view: LiveView, body: object) =>
  (await (await ask(view, '/tokens/search', json(body))).json()) as Found;

const nextTurn = () => new Promise(setImmediate);

/** Whether any channel of the library has a subscriber. */
const isSubscribed = () =>
  ['tracing:owner-token-registry:request:start', 'tracing:owner-token-registry:request:asyncEnd']
    .concat(['lookup', 'rejection', 'pause'].map((name) => `owner-token-registry:${name}`))
    .filter((name) => diagnostics.hasSubscribers(name));

/** Whether a page is open: nothing else has timers here. */
const isOpen = (clock: ManualClock) => clock.pendingTimers > 0;

async function listen(handler: http.RequestListener) {
  const server = http.createServer(handler).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url, [Symbol.dispose]: close };
}

it('access to the live view is refused without a decision, with a sentence that says what to do', async () => {
  const { view } = viewed({});
  for (const path of ['/tokens/', '/tokens/events', '/tokens/live-view.js', '/tokens']) {
    const answer = await ask(view, path);
    expect(answer.status).toBe(403);
    expect(await answer.text()).toMatch(/Pass `authorize: \(request\) => …` to liveView\(\), or `public: true`/);
  }
  expect((await ask(view, '/tokens/search', json({ text: '' }))).status).toBe(403);
});

it.each<[string, LiveViewOptions['authorize'], number]>([
  ['allows', () => true, 200],
  ['allows later', async () => true, 200],
  ['refuses', () => false, 403],
  ['returns something truthy', () => 'yes' as unknown as boolean, 403],
  [
    'throws',
    () => {
      throw new Error('no session');
    },
    403,
  ],
  ['rejects', () => Promise.reject(new Error('no session')), 403],
])('access to the live view is decided by the host’s function: it %s', async (_, authorize, status) => {
  const { view } = viewed({ authorize: authorize as NonNullable<LiveViewOptions['authorize']> });
  expect((await ask(view)).status).toBe(status);
  using server = await listen(view.node);
  expect((await fetch(`${server.url}/tokens/`)).status).toBe(status);
});

it('access to the live view is decided on the request object of the framework', async () => {
  const seen: unknown[] = [];
  const { view } = viewed({ authorize: (request) => seen.push(request) > 0 });
  const request = new Request('http://backend.example/tokens/');
  await view.fetch(request);
  using server = await listen(view.node);
  await fetch(`${server.url}/tokens/`);
  expect(seen[0]).toBe(request);
  expect(seen[1]).toBeInstanceOf(http.IncomingMessage);
});

it.each<[string, Record<string, string>, number]>([
  ['its own page', { 'sec-fetch-site': 'same-origin' }, 200],
  ['the address bar', { 'sec-fetch-site': 'none' }, 200],
  ['another site', { 'sec-fetch-site': 'cross-site' }, 403],
  ['a sibling domain', { 'sec-fetch-site': 'same-site' }, 403],
  ['its own page, in an older browser', { host: 'ops.example', origin: 'https://ops.example' }, 200],
  [
    'its own page, behind a proxy that changes the host',
    { host: 'backend:8080', 'x-forwarded-host': 'ops.example', origin: 'https://ops.example' },
    200,
  ],
  ['another origin', { host: 'ops.example', origin: 'https://evil.example' }, 403],
  ['an opaque origin', { host: 'ops.example', origin: 'null' }, 403],
  ['no browser', { host: 'ops.example' }, 200],
])('the data and files of the live view are given to the same origin only: %s', async (_, headers, status) => {
  const { view } = viewed();
  const answer = await ask(view, '/tokens/events', { headers });
  expect(answer.status).toBe(status);
  if (status === 200) await answer.body?.cancel();
  const search = json({ text: 'a' });
  const found = await ask(view, '/tokens/search', { ...search, headers: { ...search.headers, ...headers } });
  expect(found.status).toBe(status);
  for (const file of ['live-view.js', 'live-view.css'])
    expect((await ask(view, `/tokens/${file}`, { headers })).status).toBe(status);
  // A link from elsewhere may lead to the page, which then loads its data itself.
  expect((await ask(view, '/tokens/', { headers })).status).toBe(200);
});

it('access to the live view is read-only: any other method is refused, and the search takes JSON only', async () => {
  const { view } = viewed();
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
    expect((await ask(view, '/tokens/', { method })).status).toBe(405);
  }
  expect((await ask(view, '/tokens/search')).status).toBe(405);
  expect((await ask(view, '/tokens/search', { method: 'POST', body: '{"text":""}' })).status).toBe(415);
  for (const body of [{}, { text: 1 }, []]) expect((await ask(view, '/tokens/search', json(body))).status).toBe(400);
  const long = { ...json({}), body: `{"text":"${'x'.repeat(100_000)}"}` };
  expect((await ask(view, '/tokens/search', long)).status).toBe(400);
});

it('every response of the live view has a strict content security policy, which its page obeys', async () => {
  const { view } = viewed();
  for (const path of ['/', '/live-view.js', '/live-view.css', '/x', '/x.ico', '/search']) {
    const answer = await ask(view, path);
    const policy = answer.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain('unsafe');
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
  }
  const page = await (await ask(view)).text();
  expect(page).not.toMatch(/<style|style=|<script(?![^>]* src="live-view\.js")|\son\w+=|https?:\/\/(?!www\.w3\.org\/)/);
});

it('the responses of the live view over node:http equal those over fetch', async () => {
  const { view } = viewed();
  using server = await listen(view.node);
  const facts = async (answer: Response) => {
    const { status, headers } = answer;
    const kept = ['content-type', 'cache-control', 'content-security-policy', 'location', 'allow'];
    return { status, headers: kept.map((name) => headers.get(name)), text: await answer.text() };
  };
  const cases: [string, RequestInit?][] = [
    ['/tokens/'],
    ['/tokens/live-view.js'],
    ['/tokens/live-view.css'],
    ['/tokens'],
    ['/tokens/favicon.ico'],
    ['/tokens/', { method: 'HEAD' }],
    ['/tokens/', { method: 'POST' }],
    ['/tokens/events', { method: 'HEAD' }],
    ['/tokens/search', json({ text: 'a' })],
    ['/tokens/search', json({ accessKey: 'a' })],
    ['/tokens/search', { ...json({}), body: 'no JSON' }],
  ];
  for (const [path, init] of cases) {
    const direct = await facts(await ask(view, path, init));
    expect(await facts(await fetch(server.url + path, { ...init, redirect: 'manual' })), path).toEqual(direct);
  }
});

it.each([
  ['/tokens', './tokens/'],
  ['/ops/crm-tokens?tab=1', './crm-tokens/'],
  ['/a/http:evil.example/b', './b/'],
])(
  'the mount path %s of the live view leads to itself with a slash, relative so that it holds behind a proxy',
  async (path, location) => {
    const { view } = viewed();
    const answer = await ask(view, path, { redirect: 'manual' });
    expect([answer.status, answer.headers.get('location')]).toEqual([308, location]);
  },
);

it('the mount path of the live view may be any path, or one that the framework has removed from the URL', async () => {
  const { view } = viewed();
  using server = await listen((req, res) => {
    // As Express does for `app.use('/tokens', view.node)`.
    const url = req.url ?? '';
    Object.assign(req, { originalUrl: url, url: url.replace(/^\/tokens/, '') || '/' });
    view.node(req, res);
  });
  expect((await fetch(`${server.url}/tokens`, { redirect: 'manual' })).status).toBe(308);
  const followed = await fetch(`${server.url}/tokens`);
  expect([followed.status, followed.url]).toEqual([200, `${server.url}/tokens/`]);
  for (const file of ['', 'live-view.js', 'live-view.css']) {
    expect((await ask(view, `/any/where/${file}`)).status).toBe(200);
    expect((await fetch(`${server.url}/tokens/${file}`)).status).toBe(200);
  }
});

it('the mount path of the live view may have a body parser in front of it', async () => {
  const { view, registry } = viewed();
  await registry.getToken('key-1');
  using server = await listen((req, res) => {
    void req.toArray().then((parts) => view.node(Object.assign(req, { body: JSON.parse(parts.join('')) }), res));
  });
  const found = await fetch(`${server.url}/search`, json({ text: 'key-1' }));
  expect(await found.json()).toMatchObject({ owners: { default: [{ owner: 'KEY-1' }] } });
});

it('the stream of the live view sends the state, at most twice a second, with the requests from before the page was opened', async () => {
  const { view, registry, clock, source } = viewed();
  await registry.getToken('key-1');
  const frames = await Frames.of(view, 'request=2');
  const first = await frames.next();
  expect(first).toMatchObject({
    clock: { nowMs: clock.now() },
    replica: { pid: process.pid, node: process.version, startedAtMs: Math.round(performance.timeOrigin) },
    registries: [{ name: 'default', stats: registry.stats(), status: { known: 1, unserved: 0, causes: [] } }],
    picture: { lanes: [{ id: 'KEY-1', marks: [[1, clock.now(), 0]] }], matching: 1 },
  });
  source.script(undefined);
  const call = registry.getToken('key-2');
  await settle();
  clock.advance(500);
  const { picture, replica } = await frames.next();
  expect(replica).toMatchObject({ pid: process.pid });
  const begun = { id: 2, registry: 'default', owner: 'KEY-2', reason: 'absent', atMs: clock.now() - 500 };
  expect(picture.request).toEqual(begun);
  source.call(-1).succeed({ response: { expires_in: 100 } });
  const { fingerprint, expiresAtMs } = await call;
  clock.advance(500);
  const ended = { ...begun, tookMs: 500, token: fingerprint, expiresAtMs };
  expect((await frames.next()).picture.request).toEqual(ended);
  registry.reject('key-2', await registry.getToken('key-2'));
  clock.advance(500);
  expect((await frames.next()).picture.request).toEqual({ ...ended, rejectedAtMs: clock.now() - 500 });
  await frames.close();
});

it('the stream of the live view sends nothing while nothing changes, and above 1,000 owners once a second', async () => {
  const { view, registry, clock } = viewed();
  let owners = 1_000;
  vi.spyOn(registry, 'stats').mockImplementation(() => ({ ...stats, owners }));
  const stats = new OwnerTokenRegistry({ source: ScriptedSource.answering() }).stats();
  const frames = await Frames.of(view);
  await frames.next();
  const sentAfter = async (ms: number) => {
    clock.advance(ms);
    const frame = await frames.next();
    return [frame.clock.nowMs - startMs, frame.registries[0]?.stats.owners];
  };
  const startMs = clock.now();
  // The second frame is the first with rates.
  expect(await sentAfter(500)).toEqual([500, 1_000]);
  owners = 1_001;
  expect(await sentAfter(500)).toEqual([1_000, 1_001]);
  clock.advance(1_000);
  clock.advance(500);
  owners = 1_002;
  expect(await sentAfter(500)).toEqual([3_000, 1_002]);
  await frames.close();
});

it('a search gives the lanes of what it finds, in the window of the page, also of an owner that does well', async () => {
  const { view, registry, clock } = viewed();
  for (const accessKey of keys(300)) await registry.getToken(accessKey);
  const found = async (until = '') =>
    (await search(view, { text: 'KEY-299', view: `registry=default&windowMs=60000${until}` })).lanes;
  expect(await found()).toMatchObject([{ id: 'KEY-299', bars: [{}], marks: [[expect.any(Number), clock.now(), 0]] }]);
  expect(await found(`&untilMs=${clock.now() - 1}`)).toMatchObject([{ id: 'KEY-299', bars: [], marks: [] }]);
  expect((await search(view, { text: 'KEY-299', view: '' })).lanes).toHaveLength(1);
  expect(await search(view, { text: 'KEY-299' })).not.toHaveProperty('lanes');
  expect((await search(view, { text: 'KEY-299', view: 'registry=unknown' })).lanes).toEqual([]);
});

it('the stream of the live view counts the owners anew for a page that opens after the last one has left', async () => {
  const { view, registry } = viewed();
  for (const known of [1, 2]) {
    await registry.getToken(`key-${known}`);
    const frames = await Frames.of(view);
    expect((await frames.next()).registries[0]?.status).toMatchObject({ known });
    await frames.close();
  }
});

it('the stream of the live view shows in its next frame which of 10,000 owners fails, why, and until when', async () => {
  const { view, registry, clock, source } = viewed();
  for (const accessKey of keys(10_000)) await registry.getToken(accessKey);
  const frames = await Frames.of(view);
  expect((await frames.next()).registries[0]).toMatchObject({ stats: { usable: 10_000 } });
  source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'revoked', { status: 400 })));
  registry.forget('key-5000');
  const { retryAtMs } = await errorOf(registry.getToken('key-5000'));
  const found = await search(view, { cause: 'owner_refused-400' });
  const failure = { code: 'owner_refused', message: 'revoked', status: 400, failures: 1, retryAtMs };
  expect(found.owners.default).toMatchObject([{ owner: 'KEY-5000', phase: 'backing-off', failure }]);
  clock.advance(1_000);
  const { picture } = await frames.next();
  // 10,000 owners are counted once a second, in 40 turns.
  await settle(60);
  clock.advance(1_000);
  const cause = { id: 'owner_refused-400', message: 'revoked', owners: 1, unserved: 1 };
  expect((await frames.next()).registries[0]?.status).toMatchObject({ known: 10_000, unserved: 1, causes: [cause] });
  expect(picture.lanes[0]?.id).toBe('KEY-5000');
  expect(picture.lanes[0]?.marks.at(-1)).toEqual([10_001, expect.any(Number), 5]);
  await frames.close();
});

it('the stream of the live view counts owners whose tokens the API rejects as one cause, and as served', async () => {
  const { view, registry, clock } = viewed();
  const since = clock.now();
  for (const accessKey of [...keys(60), ...keys(60)]) registry.reject(accessKey, await registry.getToken(accessKey));
  const frames = await Frames.of(view);
  const [shown] = (await frames.next()).registries;
  expect(shown).toMatchObject({
    status: { unserved: 0, causes: [{ id: 'token_rejected', owners: 60, unserved: 0 }] },
    stats: { pauses: { owners: 0, rejected: { owners: 60, sinceMs: since } } },
  });
  const found = await search(view, { cause: 'token_rejected' });
  expect([found.owners.default?.length, found.total]).toEqual([50, { default: 60 }]);
  expect(found.owners.default?.[0]).toMatchObject({ owner: 'KEY-1', phase: 'fresh', failure: { failures: 1 } });
  for (const accessKey of keys(60)) registry.accept(accessKey, await registry.getToken(accessKey));
  clock.advance(500);
  expect((await frames.next()).registries).toMatchObject([
    { status: { causes: [] }, stats: { pauses: { owners: 0 } } },
  ]);
  await frames.close();
});

it('the stream of the live view shows circuits from opening to closing, also one that opened before the page', async () => {
  const { view, registry, clock, source } = viewed();
  const given = { failureScope: 'endpoint' } as const;
  source.script((call) => call.fail(new OwnerTokenError('endpoint_unavailable', 'down', given)));
  await errorOf(registry.getToken('key-1'));
  const openedAtMs = clock.now();
  clock.advance(100);
  const frames = await Frames.of(view);
  const outage = { look: 'fault', word: 'Endpoint fails', fromMs: openedAtMs };
  expect((await frames.next()).picture.bands[1]).toMatchObject(outage);
  source.script((call) => call.succeed());
  registry.resume();
  clock.advance(500);
  expect((await frames.next()).picture.bands[1]).toMatchObject({ ...outage, toMs: openedAtMs + 100 });
  await frames.close();
});

it('the stream of the live view shows no rejection of a token that the owner no longer held', async () => {
  const { view, registry, clock } = viewed();
  const frames = await Frames.of(view);
  await frames.next();
  const old = await registry.getToken('key-1');
  registry.forget('key-1');
  await registry.getToken('key-1');
  expect(registry.reject('key-1', old)).toBe(false);
  clock.advance(500);
  const [lane] = (await frames.next()).picture.lanes;
  expect(lane?.bars.filter(({ cut }) => cut)).toEqual([]);
  expect(lane?.bars.map(({ id }) => id)).toContain(old.fingerprint);
  await frames.close();
});

it('the stream of the live view keeps registries apart, and does not record those that it does not show', async () => {
  const clock = new ManualClock();
  const sources = Array.from({ length: 3 }, () => ScriptedSource.answering());
  const [crm, billing, hidden] = ['crm', 'billing', 'hidden'].map(
    (name, at) => new OwnerTokenRegistry({ source: sources[at] as ScriptedSource, clock, name }),
  ) as [OwnerTokenRegistry, OwnerTokenRegistry, OwnerTokenRegistry];
  const fleet = { stats: () => ({ sharing: true, replicas: 3 }) } as never;
  const broken = {
    stats: () => {
      throw new Error('closed');
    },
  };
  const view = liveView([crm, billing], { ...OPEN, clock, fleets: { billing: fleet, crm: broken } });
  const frames = await Frames.of(view, 'registry=billing');
  expect((await frames.next()).registries.map(({ name, fleet }) => [name, fleet?.replicas])).toEqual([
    ['crm', undefined],
    ['billing', 3],
  ]);
  for (const registry of [hidden, billing]) await registry.getToken('key-1');
  clock.advance(500);
  expect((await frames.next()).picture).toMatchObject({ lanes: [{ marks: [[1, clock.now() - 500, 0]] }] });
  sources[2]?.script((call) => call.fail(new OwnerTokenError('client_refused', 'no', { failureScope: 'client' })));
  await errorOf(hidden.getToken('key-2'));
  expect(hidden.stats().pauses.client).toBeDefined();
  clock.advance(500);
  expect((await frames.next()).picture.bands).toMatchObject([{ look: 'unseen' }]);
  await frames.close();
});

it('the live view is subscribed to what fires per request, and never to lookups; timers run only while a page is open', async () => {
  const { view, clock } = viewed();
  expect([isSubscribed(), clock.pendingTimers]).toEqual([expect.any(Array), 0]);
  const subscribed = isSubscribed();
  expect(subscribed).toHaveLength(4);
  expect(subscribed).not.toContain('owner-token-registry:lookup');
  const frames = [await Frames.of(view), await Frames.of(view)] as const;
  await frames[0].close();
  expect(clock.pendingTimers).toBe(1);
  await frames[1].close();
  expect([isSubscribed(), clock.pendingTimers]).toEqual([subscribed, 0]);
});

it('the stream of the live view ends when its client disconnects, over node:http as over fetch', async () => {
  const { view, clock } = viewed();
  const gone = new AbortController();
  await view.fetch(new Request('http://backend.example/tokens/events', { signal: gone.signal }));
  expect(isOpen(clock)).toBe(true);
  gone.abort();
  expect(isOpen(clock)).toBe(false);
  using server = await listen(view.node);
  const client = new AbortController();
  await fetch(`${server.url}/events`, { signal: client.signal });
  expect(isOpen(clock)).toBe(true);
  client.abort();
  while (isOpen(clock)) await nextTurn();
});

/** A host that has not decided yet, and how it decides. */
function undecided() {
  const decisions: ((isAllowed: boolean) => void)[] = [];
  const authorize = () => new Promise<boolean>((resolve) => decisions.push(resolve));
  const allowAll = () => decisions.splice(0).map((decide) => decide(true));
  return { ...viewed({ authorize }), asked: () => decisions.length, allowAll };
}

it('the stream of the live view never serves more than fifty pages, even if all of them are allowed at once', async () => {
  const { view, allowAll } = undecided();
  const answers = Array.from({ length: 60 }, () => ask(view, '/events'));
  allowAll();
  const answered = await Promise.all(answers);
  const statuses = answered.map(({ status }) => status);
  for (const { body } of answered) await body?.cancel();
  expect(statuses.filter((status) => status === 200)).toHaveLength(50);
  expect(statuses.filter((status) => status === 503)).toHaveLength(10);
});

it.each<[string, (request: Request, gone: () => AbortController) => Request]>([
  ['its signal is aborted', (request, gone) => new Request(request, { signal: gone().signal })],
  [
    'the server creates its signal when that is first read',
    (request, gone) => Object.defineProperty(request, 'signal', { get: () => gone().signal }),
  ],
])(
  'a page of the live view that leaves while the host decides takes no place, over fetch: %s',
  async (_, signalled) => {
    const { view, clock, asked, allowAll } = undecided();
    const leaving = Array.from({ length: 60 }, async () => {
      let controller: AbortController | undefined;
      const gone = () => (controller ??= new AbortController());
      const answered = view.fetch(signalled(new Request('http://backend.example/events'), gone));
      controller?.abort();
      return answered;
    });
    expect(asked()).toBe(60);
    allowAll();
    const answers = await Promise.all(leaving);
    expect(isOpen(clock)).toBe(false);
    await expect(answers[0]?.text()).rejects.toThrow('the page is gone');
    const stays = ask(view, '/events');
    allowAll();
    const stayed = await stays;
    expect([stayed.status, isOpen(clock)]).toEqual([200, true]);
    await stayed.body?.cancel();
  },
);

const SERVERS: [string, (handler: http.RequestListener) => net.Server, (port: number) => { destroy(): void }][] = [
  [
    'HTTP/1.1',
    (handler) => http.createServer(handler),
    (port) => http.get({ port, path: '/events' }).on('error', () => {}),
  ],
  [
    'HTTP/2',
    (handler) => http2.createServer(handler as never),
    (port) => {
      const session = http2.connect(`http://127.0.0.1:${port}`).on('error', () => {});
      session.request({ ':path': '/events' }).on('error', () => {});
      return session;
    },
  ],
];

it.each(SERVERS)(
  'a page of the live view that leaves while the host decides takes no place, over %s',
  async (_, serve, visit) => {
    const { view, clock, asked, allowAll } = undecided();
    let closed = 0;
    const server = serve((req, res) => {
      res.once('close', () => closed++);
      view.node(req, res);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const visitors = Array.from({ length: 60 }, () => visit(port));
    while (asked() < 60) await nextTurn();
    for (const visitor of visitors) visitor.destroy();
    while (closed < 60) await nextTurn();
    allowAll();
    await settle();
    expect(isOpen(clock)).toBe(false);
    const stays = visit(port);
    while (asked() < 1) await nextTurn();
    allowAll();
    while (!isOpen(clock)) await nextTurn();
    stays.destroy();
    while (isOpen(clock)) await nextTurn();
    server.close();
  },
);

it.each(SERVERS)(
  'a page of the live view that left before the host passed it on takes no place, over %s',
  async (_, serve, visit) => {
    const { view, clock } = viewed();
    let answered = 0;
    const server = serve((req, res) => {
      visitor.destroy();
      res.once('close', () => {
        void nextTurn().then(() => {
          view.node(req, res);
          answered++;
        });
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const visitor = visit((server.address() as AddressInfo).port);
    while (answered === 0) await nextTurn();
    for (let turn = 0; turn < 5; turn++) await nextTurn();
    expect(isOpen(clock)).toBe(false);
    server.close();
  },
);

it('a page of the live view that the host answers itself in the meantime takes no place', async () => {
  const { view, clock, asked, allowAll } = undecided();
  using server = await listen((req, res) => {
    view.node(req, res);
    res.writeHead(504).write('too ');
    void settle().then(() => allowAll());
    void settle()
      .then(() => settle())
      .then(() => res.end('slow'));
  });
  const answer = await fetch(`${server.url}/events`);
  expect([answer.status, await answer.text(), asked()]).toEqual([504, 'too slow', 0]);
  expect(isOpen(clock)).toBe(false);
});

/** Of 50 kB, in the message of a failure. */
async function withLargeFrames() {
  const { view, clock, registry, source } = viewed();
  source.script((call) =>
    call.fail(new OwnerTokenError('owner_refused', 'no '.repeat(20_000), { failureScope: 'owner' })),
  );
  await errorOf(registry.getToken('key-1'));
  return { view, clock };
}

it('the stream of the live view disconnects a page that does not read', async () => {
  const { view, clock } = await withLargeFrames();
  await Frames.of(view);
  for (let frame = 0; frame < 3_000 && isOpen(clock); frame++) clock.advance(500);
  expect(isOpen(clock)).toBe(false);
});

it('the stream of the live view disconnects a client of node:http that does not read', async () => {
  const { view, clock } = await withLargeFrames();
  using server = await listen(view.node);
  const client = connect(Number(new URL(server.url).port), '127.0.0.1').pause();
  client.write('GET /events HTTP/1.1\r\nhost: backend\r\n\r\n');
  while (!isOpen(clock)) await new Promise(setImmediate);
  for (let frame = 0; frame < 3_000 && isOpen(clock); frame++) {
    clock.advance(500);
    await new Promise(setImmediate);
  }
  expect(isOpen(clock)).toBe(false);
  client.destroy();
});

it('the search of the live view finds owners by part of a label, in any case, failing ones first', async () => {
  const { view, registry, source } = viewed();
  for (const accessKey of keys(20)) await registry.getToken(accessKey);
  source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'no')));
  registry.forget('key-13');
  await errorOf(registry.getToken('key-13'));
  const found = (await (await ask(view, '/search', json({ text: ' Key-1 ' }))).json()) as Found;
  const owners = found.owners.default?.map(({ owner }) => owner) ?? [];
  expect(owners).toHaveLength(11);
  expect(owners[0]).toBe('KEY-13');
});

it('the search of the live view also finds an owner by fingerprint, and one of exactly that name first', async () => {
  const { view, registry, source } = viewed();
  for (const accessKey of keys(120)) await registry.getToken(accessKey);
  const named = await search(view, { text: 'KEY-1' });
  expect([named.owners.default?.[0]?.owner, named.owners.default?.length, named.total]).toEqual([
    'KEY-1',
    32,
    { default: 32 },
  ]);
  const fingerprint = named.owners.default?.[0]?.fingerprint ?? '';
  expect(fingerprint).toMatch(/^owner_/);
  expect((await search(view, { text: fingerprint })).owners.default).toMatchObject([{ owner: 'KEY-1', fingerprint }]);
  const all = await search(view, { text: '' });
  expect([all.owners.default?.length, all.total, all.replica.pid]).toEqual([50, { default: 120 }, process.pid]);
  source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'no')));
  registry.forget('key-60');
  await errorOf(registry.getToken('key-60'));
  const { owners } = await search(view, { text: '' });
  expect([owners.default?.[0]?.owner, owners.default?.length]).toEqual(['KEY-60', 50]);
});

it('the status of the live view sums up every registry in a sentence, for a log', async () => {
  const { view, registry, source, clock } = viewed({ ...OPEN, runbooksUrl: 'https://wiki.example/runbooks' });
  expect(await view.status()).toMatchObject([{ sentence: 'No owner has asked for a token yet.', known: 0 }]);
  for (const accessKey of keys(2)) await registry.getToken(accessKey);
  expect(await view.status()).toMatchObject([{ sentence: 'All 2 owners are served.', service: 'works' }]);
  source.script((call) => call.fail(new OwnerTokenError('owner_refused', 'revoked', { status: 400 })));
  await errorOf(registry.getToken('key-3'));
  const runbook = 'https://wiki.example/runbooks#ownertokencallsrefused';
  const [status] = await view.status();
  expect(status).toMatchObject({ atMs: clock.now(), known: 3, unserved: 1, causes: [{ runbook, unserved: 1 }] });
  expect(status?.sentence).toBe('1 owner cannot be served: refused (400) since 00:00:00 UTC; the others are served.');
});

it('the status of the live view names the replica and says whether it shares tokens', async () => {
  const sharing = { sharing: false, replicas: 3, replica: 'pod-2', mismatched: 0 };
  const fleet = { stats: () => sharing as never };
  const { view } = viewed({ ...OPEN, fleets: { default: fleet } });
  expect(await view.status()).toMatchObject([{ replica: 'pod-2', replicas: 3, sharing: false }]);
});

it.each([
  [100, 7],
  [20_000, 2],
])('the live view counts %d owners %d times in three seconds, so that the cost stays low', async (owners, counted) => {
  const { view, registry, clock } = viewed();
  const all = vi.spyOn(registry, 'eachOwner').mockImplementation(function* () {
    for (let n = 0; n < owners; n++) yield { owner: `o${n}`, fingerprint: '', phase: 'empty' };
  });
  const frames = await Frames.of(view);
  await frames.next();
  for (let frame = 0; frame < 6; frame++) {
    await settle(200); // The walk over 20,000 owners takes 79 turns.
    clock.advance(500);
  }
  expect(all).toHaveBeenCalledTimes(counted);
  await frames.close();
});

it('the live view’s search by access key is off by default; if on, it gives the owner’s fingerprint and state', async () => {
  const off = viewed();
  expect((await ask(off.view, '/search', json({ accessKey: 'key-1' }))).status).toBe(403);
  const { view, registry } = viewed({ ...OPEN, accessKeySearch: true });
  await registry.getToken('key-1');
  const found = async (accessKey: string) => (await ask(view, '/search', json({ accessKey }))).json();
  expect(await found('key-1')).toMatchObject({ owners: { default: [{ owner: 'KEY-1', phase: 'fresh' }] } });
  expect(await found('key-9')).toMatchObject({ owners: { default: [{ owner: 'KEY-9', phase: 'empty' }] } });
  // Keys are compared byte for byte, unlike labels: white space is part of a key.
  await registry.getToken(' key-1 ');
  registry.forget('key-1');
  expect(await found(' key-1 ')).toMatchObject({ owners: { default: [{ owner: ' KEY-1 ', phase: 'fresh' }] } });
  expect(await found('key-1')).toMatchObject({ owners: { default: [{ owner: 'KEY-1', phase: 'empty' }] } });
  const refused = await ask(view, '/search', json({ accessKey: '' }));
  expect([refused.status, await refused.text()]).toEqual([
    400,
    expect.stringContaining('the access key cannot be used'),
  ]);
});

it('the live view sends no secret in its state, stream, search results or page, whatever fails', async () => {
  const { accessKey, otherAccessKey, token, clientSecret } = SECRETS;
  const all = Object.values(SECRETS).join(' ');
  const source = new ScriptedSource((call) => {
    if (call.accessKey === accessKey) call.succeed({ token, response: { expires_in: 100, echo: all } });
    else call.fail(Object.assign(new Error(all), { status: 400, error: 'invalid_grant', body: { clientSecret } }));
  });
  const clock = new ManualClock();
  const registry = new OwnerTokenRegistry({ source, clock });
  const view = liveView(registry, { ...OPEN, clock, accessKeySearch: true });
  const frames = await Frames.of(view);
  await frames.next();
  await registry.getToken(accessKey);
  await errorOf(registry.getToken(otherAccessKey));
  clock.advance(500);
  expect((await frames.next()).picture.lanes).toHaveLength(2);
  registry.reject(accessKey, token);
  clock.advance(500);
  await frames.next();
  await frames.close();
  const late = await Frames.of(view);
  await late.next();
  await late.close();
  const texts = [frames.text, late.text];
  for (const body of [{ text: '' }, { text: accessKey }, { accessKey }, { accessKey: otherAccessKey }]) {
    texts.push(await (await ask(view, '/search', json(body))).text());
  }
  for (const file of ['', 'live-view.js']) texts.push(await (await ask(view, `/${file}`)).text());
  expect(texts.join('').length).toBeGreaterThan(10_000);
  expect(leaksIn(texts.join('\n'))).toEqual([]);
});

it('the live view has a script of at most 30 kB compressed, without a Node module', async () => {
  const script = await (await ask(viewed().view, '/live-view.js')).text();
  expect(script).toContain('EventSource');
  expect(/["'`]node:|createHmac|invalid_options/.test(script)).toBe(false);
  expect(gzipSync(script).length).toBeLessThan(30_000);
});

it('the live view refuses arguments that cannot work, listing every problem', () => {
  const { registry } = viewed();
  const problemOf = (registries: unknown, options: object = OPEN) => {
    try {
      return liveView(registries as OwnerTokenRegistry, options);
    } catch (error) {
      return (error as OwnerTokenError).message;
    }
  };
  expect(problemOf([])).toContain('registries: expected at least one registry');
  expect(problemOf(undefined)).toContain('registries: expected an OwnerTokenRegistry, or several');
  expect(problemOf([registry, registry])).toContain('two are `default`: set the option `name`');
  expect(problemOf(registry, { ...OPEN, authorize: () => true })).toContain('choose one of the two');
  expect(problemOf(registry, { authorise: 1 })).toContain('authorise: unknown option; expected one of authorize');
  expect(problemOf(registry, { public: 'yes', authorize: 1, clock: {} })).toMatch(/authorize.*public.*clock/s);
  expect(problemOf(registry, { ...OPEN, fleets: { crm: {}, default: {} } })).toMatch(/fleets\.crm.*fleets\.default/s);
});
