/**
 * Serves the live view of some registries: a page, its script and style sheet, a stream of frames, and a search. Reads the
 * registries, and changes nothing.
 *
 * | path below the mount path | answer |
 * |---|---|
 * | `` | the page |
 * | `live-view.js`, `live-view.css` | its files |
 * | `events` | the frames: server-sent events |
 * | `search` | owners by label, fingerprint or access key |
 */

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { startTimer, stopTimer, type Timer } from '../clock.ts';
import { OwnerTokenError } from '../errors/owner-token-error.ts';
import type { OwnerReport } from '../registry/reports.ts';
import { isForeign, refusalOf, SECURITY_HEADERS } from './access.ts';
import type { Answer, Received, Viewer } from './exchange.ts';
import { type Found, type Frame, MAX_FOUND, type RegistryView, type Replica } from './frames.ts';
import type { LiveViewOptions, ViewedRegistry } from './options.ts';
import { pageHtml } from './page-html.ts';
import { Recorder } from './recorder.ts';

const FRAME_MS = 500;
const MAX_VIEWERS = 50;
/** Owners in a frame: failing ones, and in the first one working ones. */
const MAX_LISTED = 200;
/** Fewer, because they have one cause. */
const MAX_REJECTED = 50;
/** Owners that a search looks at. */
const MAX_SEARCHED = 10_000;

export class LiveView {
  readonly #registries: readonly ViewedRegistry[];
  readonly #options: LiveViewOptions;
  readonly #recorder: Recorder;
  readonly #viewers = new Set<Viewer>();
  readonly #id = randomUUID();
  #timer: Timer | undefined;

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
    for (const { name, stats } of this.#registryViews()) {
      for (const scope of ['client', 'endpoint'] as const) {
        const pause = stats.pauses[scope];
        if (pause) this.#recorder.outageBegan(name, scope, pause.failedAtMs);
      }
    }
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
    const working = this.#registries.map((registry) => {
      return [registry.name, registry.owners({ state: 'working', limit: MAX_LISTED })] as const;
    });
    return {
      ...this.#frame(this.#recorder.requests),
      replica: replicaOf(this.#id, version),
      working: Object.fromEntries(working),
      accessKeys: this.#options.accessKeySearch === true,
    };
  }

  #registryViews(): RegistryView[] {
    return this.#registries.map((registry) => {
      const failing = registry.owners({ state: 'failing', limit: MAX_LISTED });
      const fleet = statsOf(this.#options.fleets?.[registry.name]);
      const rejected = registry.owners({ state: 'rejected', limit: MAX_REJECTED });
      return { name: registry.name, stats: registry.stats(), failing, rejected, ...(fleet && { fleet }) };
    });
  }

  async #search(received: Received): Promise<Answer> {
    const isJson = /^application\/json\b/i.test(received.header('content-type') ?? '');
    if (isForeign(received)) return text(403, FOREIGN);
    if (!isJson) return text(415, 'Send JSON.');
    const wanted = await received.json().catch(() => undefined);
    const { text: name, accessKey } = (wanted ?? {}) as Record<string, unknown>;
    if (typeof name === 'string') return found(this.#registries, (registry) => ownersNamed(registry, name));
    if (typeof accessKey !== 'string') return text(400, 'Send {"text": …} or {"accessKey": …}.');
    if (!this.#options.accessKeySearch) return text(403, 'The search by access key is off: see accessKeySearch.');
    return found(this.#registries, (registry) => ownerWithKey(registry, accessKey));
  }

  #now(): number {
    return this.#options.clock?.now() ?? Date.now();
  }
}

const FILES = ['', 'live-view.js', 'live-view.css', 'events'];
const FOREIGN = 'Pages of other origins may not do this.';

/** Without them if they throw: nothing that the page shows may break the host. */
function statsOf(fleet: NonNullable<LiveViewOptions['fleets']>[string] | undefined): RegistryView['fleet'] {
  try {
    return fleet?.stats();
  } catch {
    return undefined;
  }
}

function replicaOf(id: string, version: string): Replica {
  const startedAtMs = Math.round(performance.timeOrigin);
  return { id, host: hostname(), pid: process.pid, startedAtMs, version, node: process.version };
}

/** Those whose label or fingerprint contains the text, among the failing ones and the others that were used last. */
function ownersNamed(registry: ViewedRegistry, wanted: string): OwnerReport[] {
  const text = wanted.trim().toLowerCase();
  const matches = registry.owners({ limit: MAX_SEARCHED }).filter(({ owner }) => owner.toLowerCase().includes(text));
  return matches.slice(0, MAX_FOUND);
}

/** The owner of an access key, known or not. Not looked up by its name: two owners may have one label. */
const ownerWithKey = (registry: ViewedRegistry, accessKey: string): OwnerReport[] => [
  { owner: registry.fingerprint(accessKey), ...registry.describe(accessKey) },
];

function found(registries: readonly ViewedRegistry[], find: (registry: ViewedRegistry) => OwnerReport[]): Answer {
  const owners = Object.fromEntries(registries.map((registry) => [registry.name, find(registry)]));
  const headers = { ...SECURITY_HEADERS, 'content-type': 'application/json', 'cache-control': 'no-store' };
  return { status: 200, headers, body: JSON.stringify({ owners } satisfies Found) };
}

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
