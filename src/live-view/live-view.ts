/**
 * Serves the live view of some registries: a page, its script and style sheet, a stream of frames, and a search. Reads the
 * registries, and changes nothing.
 *
 * | path below the mount path | answer |
 * |---|---|
 * | `` | the page |
 * | `live-view.js`, `live-view.css` | its files |
 * | `events` | the frames: server-sent events |
 * | `search` | owners by label, fingerprint, cause or access key |
 */

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { startTimer, stopTimer, type Timer } from '../clock.ts';
import { OwnerTokenError } from '../errors/owner-token-error.ts';
import { encodingOf, type Writer, writerOf } from '../page-engine/compression.ts';
import type { Lane } from '../page-engine/data.ts';
import { StateStream } from '../page-engine/state-stream.ts';
import type { OwnerReport } from '../registry/reports.ts';
import { isForeign, refusalOf, SECURITY_HEADERS } from './access.ts';
import { count, failsFor, find, isNamed, sharingOf } from './counted.ts';
import type { Found, FoundOwner, Frame, RegistryView, Replica } from './frames.ts';
import type { LiveViewOptions, ViewedRegistry } from './options.ts';
import { pageHtml } from './page-html.ts';
import { lanesOfOwners, pictureView, type View, viewOf } from './picture-view.ts';
import { ratesOf, type Sample } from './rates.ts';
import { Recorder } from './recorder.ts';
import { sentenceOf, utcWord } from './sentence.ts';
import type { Facts, RegistryStatus } from './status.ts';
import type { Answer, Received } from './transports.ts';

/** How often a page may be sent a frame, and where many owners make it large. */
const FRAME_MS = 500;
const LARGE_FRAME_MS = 1_000;
const MANY_OWNERS = 1_000;
const MAX_VIEWERS = 50;
/** Rates are taken over this many frames. */
const RATE_FRAMES = 20;
/** Owners whose tokens may be older than what was recorded. */
const MAX_LISTED = 250;
/** Owners are counted as often as keeps the cost low: twice a second up to 5,000 of them, then after so long for each. */
const COUNT_MS_PER_OWNER = 0.1;

export class LiveView {
  readonly #registries: readonly ViewedRegistry[];
  readonly #options: LiveViewOptions;
  readonly #recorder: Recorder;
  readonly #stream = new StateStream();
  readonly #id = randomUUID();
  #timer: Timer | undefined;
  /** By registry: what was counted last, and when to count again. */
  readonly #facts = new Map<string, Facts>();
  readonly #owners = new Map<string, readonly OwnerReport[]>();
  #countAtMs = 0;
  #past: Sample[] = [];
  #shown: readonly RegistryView[] = [];
  #version = '';

  constructor(registries: readonly ViewedRegistry[], options: LiveViewOptions) {
    this.#registries = registries;
    this.#options = options;
    const { clock } = options;
    // Without `this`, so that the recorder ends with the view.
    this.#recorder = new Recorder(
      registries.map(({ name }) => name),
      () => clock?.now() ?? Date.now(),
    );
    for (const registry of registries) this.#noteOutages(registry);
  }

  /**
   * Answers a request with what `deliver` makes of the answer. Rejects only if that throws. A page is counted and joins in the
   * same step, so that any number of requests that were authorized at once take no more than the places there are.
   */
  async answer<T>(received: Received, deliver: (answer: Answer) => T): Promise<T> {
    const answer = await this.#answer(received).catch((error: unknown) => {
      // Any other message may quote what was sent.
      return error instanceof OwnerTokenError ? text(400, error.message) : text(500, 'The live view failed.');
    });
    return deliver(typeof answer === 'function' ? answer() : answer);
  }

  async #answer(received: Received): Promise<Answer | (() => Answer)> {
    const refusal = await refusalOf(received, this.#options);
    if (refusal !== undefined) return text(403, refusal);
    const { method, path } = received;
    const file = path.slice(path.lastIndexOf('/') + 1);
    const isGet = method === 'GET' || method === 'HEAD';
    if (file === 'search')
      return method === 'POST' ? this.#search(received) : text(405, 'Send a POST.', { allow: 'POST' });
    if (!isGet) return text(405, 'This view is read-only.', { allow: 'GET, HEAD' });
    // The mount path itself. The address is relative, so that it holds behind a proxy that adds to the path.
    if (!FILES.includes(file) && !file.includes('.'))
      return text(308, 'The page is at this path with a slash.', { location: `./${file}/` });
    if (!FILES.includes(file)) return text(404, 'There is no such file.');
    if (file !== '' && isForeign(received)) return text(403, FOREIGN);
    const built = await import('./built-page.ts');
    this.#version = built.version;
    if (file === 'events') return method === 'GET' ? () => this.#events(received) : text(200, '');
    if (file === 'live-view.js') return asset('text/javascript', built.script);
    if (file === 'live-view.css') return asset('text/css', built.style);
    return asset('text/html', pageHtml());
  }

  #events({ query, header }: Received): Answer {
    if (this.#stream.size >= MAX_VIEWERS) return text(503, 'Too many pages are open.');
    // `no-transform`, or a compressing middleware would hold the frames back; the last header is for nginx.
    const headers = { 'cache-control': 'no-store, no-transform', 'x-accel-buffering': 'no' };
    const accepted = header('accept-encoding');
    return {
      status: 200,
      headers: { ...SECURITY_HEADERS, ...headers, ...encodingOf(accepted), 'content-type': 'text/event-stream' },
      body: ({ send }) => this.#join(writerOf(accepted, send), viewOf(query)),
    };
  }

  #join(writer: Writer, view: View): () => void {
    if (this.#stream.size === 0) this.#begin();
    writer.send('retry: 1000\n\n');
    const leave = this.#stream.join(JSON.stringify(view), () => this.#frame(view), writer.send);
    return () => {
      leave();
      writer.end();
      if (this.#stream.size === 0) stopTimer(this.#timer);
    };
  }

  #begin(): void {
    this.#facts.clear();
    this.#past = [];
    this.#countAtMs = Number.NEGATIVE_INFINITY;
    this.#read();
    this.#schedule();
  }

  #noteOutages(registry: ViewedRegistry): void {
    const { pauses } = registry.stats();
    for (const scope of ['client', 'endpoint'] as const) {
      const pause = pauses[scope];
      if (pause) this.#recorder.outageBegan(registry.name, scope, pause.sinceMs);
    }
  }

  #schedule(): void {
    const owners = this.#shown.reduce((sum, { stats }) => sum + stats.owners, 0);
    this.#timer = startTimer(
      this.#options.clock,
      () => {
        this.#read();
        this.#schedule();
        this.#stream.update();
      },
      owners > MANY_OWNERS ? LARGE_FRAME_MS : FRAME_MS,
    );
  }

  #frame(view: View): Frame {
    const { accessKeySearch = false, dashboardUrl, runbooksUrl } = this.#options;
    const registries = this.#shown;
    const { name: registry = '' } = registries.find(({ name }) => name === view.registry) ?? registries[0] ?? {};
    const [nowMs, recorder, owners] = [this.#now(), this.#recorder, this.#owners.get(registry) ?? []];
    return {
      clock: { nowMs, upMs: Math.round(performance.now()) },
      registries,
      picture: pictureView({ recorder, registry, owners }, view, nowMs),
      replica: replicaOf(this.#id, this.#version),
      page: { accessKeys: accessKeySearch, dashboardUrl, runbooksUrl },
    };
  }

  /** Reads the registries, for all pages. */
  #read(): void {
    const nowMs = this.#now();
    if (nowMs >= this.#countAtMs) this.#countAll();
    const stats = new Map(this.#registries.map((registry) => [registry.name, registry.stats()]));
    this.#past = [...this.#past.slice(1 - RATE_FRAMES), { nowMs, stats }];
    this.#shown = [...stats].map(([name, own]) => {
      const [status, rates] = [this.#facts.get(name), ratesOf(this.#past, name)];
      const fleet = sharingOf(this.#options.fleets?.[name]);
      const off = fleet?.sharing === false ? this.#recorder.sharingOff.get(name) : undefined;
      return {
        name,
        stats: own,
        ...(status && { status: withoutTime(status) }),
        ...(rates && { rates }),
        ...(fleet && { fleet }),
        ...(off && { sharingOff: off }),
      };
    });
  }

  /** Counts the owners of all registries, and plans when to do so again. */
  #countAll(): void {
    let left = this.#registries.length;
    let owners = 0;
    this.#countAtMs = Number.POSITIVE_INFINITY;
    const counted = (facts: Facts) => {
      this.#facts.set(facts.registry, facts);
      owners += facts.known;
      if (--left === 0) this.#countAtMs = this.#now() + Math.max(FRAME_MS, owners * COUNT_MS_PER_OWNER);
    };
    for (const registry of this.#registries) {
      this.#owners.set(registry.name, registry.owners({ limit: MAX_LISTED }));
      count(registry, this.#options, () => this.#now(), counted);
    }
  }

  /** What the page says at its top, in UTC. */
  async status(): Promise<RegistryStatus[]> {
    const all = this.#registries.map((registry) => {
      return new Promise<Facts>((resolve) => count(registry, this.#options, () => this.#now(), resolve));
    });
    return (await Promise.all(all)).map((facts) => ({ ...facts, sentence: sentenceOf(facts, utcWord(facts.atMs)) }));
  }

  async #search(received: Received): Promise<Answer> {
    const isJson = /^application\/json\b/i.test(received.header('content-type') ?? '');
    if (isForeign(received)) return text(403, FOREIGN);
    if (!isJson) return text(415, 'Send JSON.');
    const wanted = await received.json().catch(() => undefined);
    const { text: name, cause, accessKey, view } = (wanted ?? {}) as Record<string, unknown>;
    if (typeof name === 'string') {
      const shown = typeof view === 'string' ? viewOf(new URLSearchParams(view)) : undefined;
      return this.#found((registry) => find(registry, isNamed(name), name.trim()), shown);
    }
    if (typeof cause === 'string') return this.#found((registry) => find(registry, failsFor(cause, registry)));
    if (typeof accessKey !== 'string') return text(400, 'Send {"text": …}, {"cause": …} or {"accessKey": …}.');
    if (!this.#options.accessKeySearch) return text(403, 'The search by access key is off: see accessKeySearch.');
    return this.#found(async (registry) => ({ owners: [ownerWithKey(registry, accessKey)], total: 1 }));
  }

  async #found(
    look: (registry: ViewedRegistry) => Promise<{ owners: readonly FoundOwner[]; total: number }>,
    view?: View,
  ): Promise<Answer> {
    const results = await Promise.all(
      this.#registries.map(async (registry) => [registry.name, await look(registry)] as const),
    );
    const owners = Object.fromEntries(results.map(([name, result]) => [name, result.owners]));
    const total = Object.fromEntries(results.map(([name, result]) => [name, result.total]));
    const headers = { ...SECURITY_HEADERS, 'content-type': 'application/json', 'cache-control': 'no-store' };
    const replica = { id: this.#id, host: hostname(), pid: process.pid };
    const found: Found = { owners, total, replica, ...(view && { lanes: this.#lanes(owners, view) }) };
    return { status: 200, headers, body: JSON.stringify(found) };
  }

  #lanes(found: Found['owners'], view: View): Lane[] {
    const registry = view.registry ?? this.#registries[0]?.name ?? '';
    return lanesOfOwners({ recorder: this.#recorder, registry, owners: found[registry] ?? [] }, view, this.#now());
  }

  #now(): number {
    return this.#options.clock?.now() ?? Date.now();
  }
}

const FILES = ['', 'live-view.js', 'live-view.css', 'events'];
const FOREIGN = 'Pages of other origins may not do this.';

const withoutTime = ({ atMs: _, ...status }: Facts): Omit<Facts, 'atMs'> => status;

function replicaOf(id: string, version: string): Replica {
  const startedAtMs = Math.round(performance.timeOrigin);
  return { id, host: hostname(), pid: process.pid, startedAtMs, version, node: process.version };
}

/** The owner of an access key, known or not. Not looked up by its name: two owners may have one label. */
const ownerWithKey = (registry: ViewedRegistry, accessKey: string): FoundOwner => {
  return { owner: registry.fingerprint(accessKey), ...registry.describe(accessKey) };
};

function asset(type: string, body: string): Answer {
  const headers = { ...SECURITY_HEADERS, 'content-type': `${type}; charset=utf-8`, 'cache-control': 'no-cache' };
  return { status: 200, headers, body };
}

function text(status: number, sentence: string, headers: Readonly<Record<string, string>> = {}): Answer {
  const all = { ...SECURITY_HEADERS, 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' };
  return { status, headers: { ...all, ...headers }, body: `${sentence}\n` };
}
