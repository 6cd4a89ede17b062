/**
 * Records the token requests of some registries, from the moment on at which the view is mounted, for a page that is opened in
 * the middle of an incident. What it subscribes to fires for requests, rejections, pauses and what becomes of
 * sharing, never for a call that is served.
 */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { MARK_KINDS, type MarkKind } from '../page-engine/data.ts';
import { Timeline } from '../page-engine/timeline.ts';
import type { SharingMessage } from '../redis/diagnostics.ts';
import type { PauseMessage, RejectionMessage, RequestMessage } from '../reporting/channel-messages.ts';
import type { OutageView, RequestView, SharingOff } from './frames.ts';

export const KEPT_MS = 15 * 60_000;
const MAX_BYTES = 4_000_000;
/** What a record takes, about. */
const RECORD_BYTES = 225;
export const MAX_REQUESTS = Math.floor(MAX_BYTES / RECORD_BYTES);
/** So many are dropped at once, because to drop the first of an array takes as long as the array is. */
export const DROPPED_AT_ONCE = 250;
const MAX_OUTAGES = 100;

/** All lists are bounded: what is beyond a bound drops the oldest. */
export class Recorder {
  /** By `id`, which is also the order of `atMs`. */
  readonly requests: RequestView[] = [];
  readonly outages: OutageView[] = [];
  /** By registry: since when its tokens are not shared, and why. */
  readonly sharingOff = new Map<string, SharingOff>();
  /** By registry: exact for each of the last 15 minutes, however many requests are kept. */
  readonly timelines: ReadonlyMap<string, Timeline>;
  /** Epoch ms: no request since then is missing. */
  completeSinceMs: number;
  readonly #now: () => number;
  /** Those in flight, by their message, which is the same object from start to end. */
  readonly #views = new WeakMap<RequestMessage, RequestView>();
  /** Those in `requests` with a token, by its fingerprint. */
  readonly #byToken = new Map<string, RequestView>();
  #lastId = 0;

  /** @param names of the registries. Their names are all that a message says of them. */
  constructor(names: readonly string[], now: () => number) {
    this.timelines = new Map(names.map((name) => [name, new Timeline(KEPT_MS / 1000)]));
    this.#now = now;
    this.completeSinceMs = now();
    listen(this, 'tracing:owner-token-registry:request:start', (to, message: RequestMessage) => to.#began(message));
    listen(this, 'tracing:owner-token-registry:request:asyncEnd', (to, message: RequestMessage) => to.#ended(message));
    listen(this, 'owner-token-registry:rejection', (to, message: RejectionMessage) => to.#rejected(message));
    listen(this, 'owner-token-registry:pause', (to, message: PauseMessage) => to.#paused(message));
    listen(this, 'owner-token-registry:sharing', (to, message: SharingMessage) => to.#sharingChanged(message));
  }

  /** A circuit opened, now or before the recording began. */
  outageBegan(registry: string, scope: OutageView['scope'], fromMs: number): void {
    const isKnown = this.outages.some((each) => each.registry === registry && each.scope === scope && !each.toMs);
    if (isKnown) return;
    this.outages.push({ id: ++this.#lastId, registry, scope, fromMs });
    if (this.outages.length > MAX_OUTAGES) this.outages.shift();
  }

  #began(message: RequestMessage): void {
    const { registry, owner, reason } = message;
    const timeline = this.timelines.get(registry);
    if (!timeline) return;
    const view: RequestView = { id: ++this.#lastId, registry, owner, reason, atMs: this.#now() };
    this.#views.set(message, view);
    this.requests.push(view);
    timeline.count(view.atMs, 'pending', 1);
    const lastOfOldest = this.requests[DROPPED_AT_ONCE - 1];
    const isTooOld = lastOfOldest !== undefined && lastOfOldest.atMs < view.atMs - KEPT_MS;
    if (isTooOld || this.requests.length >= MAX_REQUESTS) this.#dropOldest();
  }

  #dropOldest(): void {
    for (const view of this.requests.splice(0, DROPPED_AT_ONCE)) {
      this.completeSinceMs = view.atMs + 1;
      if (view.token !== undefined && this.#byToken.get(view.token) === view) this.#byToken.delete(view.token);
    }
  }

  #ended(message: RequestMessage): void {
    const view = this.#views.get(message);
    if (!view) return;
    const { durationMs, token, expiresAtMs, error } = message;
    view.tookMs = durationMs ?? 0;
    if (error) view.code = error.code;
    if (error?.status !== undefined) view.status = error.status;
    if (token !== undefined) {
      view.token = token;
      this.#byToken.set(token, view);
    }
    if (Number.isFinite(expiresAtMs)) view.expiresAtMs = expiresAtMs as number;
    const timeline = this.timelines.get(view.registry);
    timeline?.count(view.atMs, 'pending', -1);
    timeline?.count(view.atMs, markOf(view), 1);
  }

  #rejected({ token, wasHeld }: RejectionMessage): void {
    const view = wasHeld ? this.#byToken.get(token) : undefined;
    if (view) view.rejectedAtMs = this.#now();
  }

  #paused({ registry, scope, action }: PauseMessage): void {
    if (scope === 'owner' || !this.timelines.has(registry)) return;
    if (action === 'paused') this.outageBegan(registry, scope, this.#now());
    const ended = action === 'lifted' ? this.outages : [];
    for (const outage of ended) if (outage.registry === registry && outage.scope === scope) outage.toMs ??= this.#now();
  }

  #sharingChanged({ registry, event, trouble, redisCode }: SharingMessage): void {
    if (event === 'resumed') this.sharingOff.delete(registry);
    if (event !== 'suspended' || !this.timelines.has(registry)) return;
    const { sinceMs } = this.sharingOff.get(registry) ?? { sinceMs: this.#now() };
    this.sharingOff.set(registry, {
      sinceMs,
      ...(trouble && { trouble }),
      ...(redisCode !== undefined && { redisCode }),
    });
  }
}

/** Until the recorder is collected: a view has no end of its own, and a host may make many. */
function listen<Message>(recorder: Recorder, name: string, take: (to: Recorder, message: Message) => void): void {
  const weak = new WeakRef(recorder);
  const listener = (message: unknown) => {
    const alive = weak.deref();
    if (alive) take(alive, message as Message);
    else unsubscribe(name, listener);
  };
  subscribe(name, listener);
}

/** How a request is drawn and counted. */
export function markOf({ tookMs, code, status = 0, token }: RequestView): MarkKind {
  if (tookMs === undefined) return 'pending';
  if (code === undefined) return token === undefined ? 'wasted' : 'ok';
  if (code === 'rate_limited' || status === 429) return 'limited';
  if (status >= 500) return 'error';
  return /_refused$|_rejected$/.test(code) ? 'refused' : 'broken';
}

export const kindOf = (request: RequestView): number => MARK_KINDS.indexOf(markOf(request));
