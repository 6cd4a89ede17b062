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
import { isForeign, refusalOf, SECURITY_HEADERS } from './access.ts';
import { count, failsFor, find, isNamed, sharingOf } from './counted.ts';
import type { Answer, Received, Viewer } from './exchange.ts';
import type { Found, FoundOwner, Frame, RegistryView, Replica } from './frames.ts';
import type { LiveViewOptions, ViewedRegistry } from './options.ts';
import { pageHtml } from './page-html.ts';
import { Recorder } from './recorder.ts';
import { sentenceOf, utcWord } from './sentence.ts';
import type { Facts, RegistryStatus } from './status.ts';

const FRAME_MS = 500;
const MAX_VIEWERS = 50;
/** Owners in the first frame. */
const MAX_LISTED = 200;
/** Owners are counted as often as keeps the cost low: twice a second up to 5,000 of them, then after so long for each. */
const COUNT_MS_PER_OWNER = 0.1;

export class LiveView {
  readonly #registries: readonly ViewedRegistry[];
  readonly #options: LiveViewOptions;
  readonly #recorder: Recorder;
  readonly #viewers = new Set<Viewer>();
  readonly #id = randomUUID();
  #timer: Timer | undefined;
  /** By registry: what was counted last, and when to count again. */
  readonly #facts = new Map<string, Facts>();
  #countAtMs = 0;

  constructor(registries: readonly ViewedRegistry[], options: LiveViewOptions) {
    this.#registries = registries;
    this.#options = options;
    this.#recorder = new Recorder(new Set(registries.map(({ name }) => name)), () => this.#now());
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
    if (file === 'events') return method === 'GET' ? () => this.#events(built.version) : text(200, '');
    if (file === 'live-view.js') return asset('text/javascript', built.script);
    if (file === 'live-view.css') return asset('text/css', built.style);
    return asset('text/html', pageHtml());
  }

  #events(version: string): Answer {
    if (this.#viewers.size >= MAX_VIEWERS) return text(503, 'Too many pages are open.');
    // `no-transform`, or a compressing middleware would hold the frames back; the last header is for nginx.
    const headers = { 'cache-control': 'no-store, no-transform', 'x-accel-buffering': 'no' };
    return {
      status: 200,
      headers: { ...SECURITY_HEADERS, ...headers, 'content-type': 'text/event-stream' },
      body: (viewer) => this.#join(viewer, version),
    };
  }

  #join(viewer: Viewer, version: string): () => void {
    if (this.#viewers.size === 0) this.#begin();
    this.#viewers.add(viewer);
    viewer.send(`retry: 1000\n\n${eventOf(this.#firstFrame(version))}`);
    return () => {
      if (!this.#viewers.delete(viewer) || this.#viewers.size > 0) return;
      stopTimer(this.#timer);
      this.#recorder.stop();
    };
  }

  #begin(): void {
    this.#recorder.start();
    for (const registry of this.#registries) {
      const { pauses } = registry.stats();
      for (const scope of ['client', 'endpoint'] as const) {
        const pause = pauses[scope];
        if (pause) this.#recorder.outageBegan(registry.name, scope, pause.sinceMs);
      }
    }
    this.#facts.clear();
    this.#countAtMs = Number.NEGATIVE_INFINITY;
    this.#schedule();
  }

  #schedule(): void {
    this.#timer = startTimer(
      this.#options.clock,
      () => {
        this.#schedule();
        const event = eventOf(this.#frame(this.#recorder.takeChanges()));
        for (const viewer of this.#viewers) viewer.send(event);
      },
      FRAME_MS,
    );
  }

  #frame(requests: Frame['requests']): Frame {
    return { nowMs: this.#now(), registries: this.#registryViews(), requests, outages: this.#recorder.outages };
  }

  #firstFrame(version: string): Frame {
    const owners = this.#registries.map((registry) => [registry.name, registry.owners({ limit: MAX_LISTED })] as const);
    const { accessKeySearch = false, dashboardUrl } = this.#options;
    return {
      ...this.#frame(this.#recorder.requests),
      replica: replicaOf(this.#id, version),
      owners: Object.fromEntries(owners),
      page: { recordedSinceMs: this.#recorder.sinceMs, accessKeys: accessKeySearch, dashboardUrl },
    };
  }

  #registryViews(): RegistryView[] {
    if (this.#now() >= this.#countAtMs) this.#countAll();
    return this.#registries.map((registry) => {
      const { name } = registry;
      const fleet = sharingOf(this.#options.fleets?.[name]);
      const status = this.#facts.get(name);
      return { name, stats: registry.stats(), ...(status && { status }), ...(fleet && { fleet }) };
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
    for (const registry of this.#registries) count(registry, this.#options, () => this.#now(), counted);
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
    const { text: name, cause, accessKey } = (wanted ?? {}) as Record<string, unknown>;
    if (typeof name === 'string') return this.#found((registry) => find(registry, isNamed(name), name.trim()));
    if (typeof cause === 'string') return this.#found((registry) => find(registry, failsFor(cause, registry)));
    if (typeof accessKey !== 'string') return text(400, 'Send {"text": …}, {"cause": …} or {"accessKey": …}.');
    if (!this.#options.accessKeySearch) return text(403, 'The search by access key is off: see accessKeySearch.');
    return this.#found(async (registry) => ({ owners: [ownerWithKey(registry, accessKey)], total: 1 }));
  }

  async #found(
    look: (registry: ViewedRegistry) => Promise<{ owners: readonly FoundOwner[]; total: number }>,
  ): Promise<Answer> {
    const results = await Promise.all(
      this.#registries.map(async (registry) => [registry.name, await look(registry)] as const),
    );
    const owners = Object.fromEntries(results.map(([name, result]) => [name, result.owners]));
    const total = Object.fromEntries(results.map(([name, result]) => [name, result.total]));
    const headers = { ...SECURITY_HEADERS, 'content-type': 'application/json', 'cache-control': 'no-store' };
    const found: Found = { owners, total, replica: { id: this.#id, host: hostname(), pid: process.pid } };
    return { status: 200, headers, body: JSON.stringify(found) };
  }

  #now(): number {
    return this.#options.clock?.now() ?? Date.now();
  }
}

const FILES = ['', 'live-view.js', 'live-view.css', 'events'];
const FOREIGN = 'Pages of other origins may not do this.';

function replicaOf(id: string, version: string): Replica {
  const [startedAtMs, upMs] = [Math.round(performance.timeOrigin), Math.round(performance.now())];
  return { id, host: hostname(), pid: process.pid, startedAtMs, upMs, version, node: process.version };
}

/** The owner of an access key, known or not. Not looked up by its name: two owners may have one label. */
const ownerWithKey = (registry: ViewedRegistry, accessKey: string): FoundOwner => {
  return { owner: registry.fingerprint(accessKey), ...registry.describe(accessKey) };
};

/** `Infinity`, which JSON does not have, becomes null; the page takes it for absent. */
const eventOf = (frame: Frame): string => `data: ${JSON.stringify(frame)}\n\n`;

function asset(type: string, body: string): Answer {
  const headers = { ...SECURITY_HEADERS, 'content-type': `${type}; charset=utf-8`, 'cache-control': 'no-cache' };
  return { status: 200, headers, body };
}

function text(status: number, sentence: string, headers: Readonly<Record<string, string>> = {}): Answer {
  const all = { ...SECURITY_HEADERS, 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' };
  return { status, headers: { ...all, ...headers }, body: `${sentence}\n` };
}
