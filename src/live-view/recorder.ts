/**
 * Records the token requests of some registries while somebody looks: the diagnostics channels are subscribed between
 * `start` and `stop`, and nothing is kept after.
 */

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { PauseMessage, RejectionMessage, RequestMessage } from '../reporting/channel-messages.ts';
import type { OutageView, RequestView } from './frames.ts';

export const MAX_REQUESTS = 5_000;
const MAX_OUTAGES = 100;

/** Both lists are bounded: each new item beyond drops the oldest one. */
export class Recorder {
  readonly requests: RequestView[] = [];
  readonly outages: OutageView[] = [];
  /** Since when. */
  sinceMs = 0;
  readonly #names: ReadonlySet<string>;
  readonly #now: () => number;
  /** Those in flight, by their message, which is the same object from start to end. */
  #views = new WeakMap<RequestMessage, RequestView>();
  /** Those in `requests` with a token, by its fingerprint. */
  readonly #byToken = new Map<string, RequestView>();
  readonly #changed = new Set<RequestView>();
  #lastId = 0;

  /** @param names of the registries. Their names are all that a message says of them. */
  constructor(names: ReadonlySet<string>, now: () => number) {
    this.#names = names;
    this.#now = now;
  }

  readonly #channels: readonly (readonly [name: string, listener: (message: never) => void])[] = [
    ['tracing:owner-token-registry:request:start', (message: RequestMessage) => this.#began(message)],
    ['tracing:owner-token-registry:request:asyncEnd', (message: RequestMessage) => this.#ended(message)],
    ['owner-token-registry:rejection', (message: RejectionMessage) => this.#rejected(message)],
    ['owner-token-registry:pause', (message: PauseMessage) => this.#paused(message)],
  ];

  start(): void {
    this.sinceMs = this.#now();
    for (const [name, listener] of this.#channels) subscribe(name, listener as (message: unknown) => void);
  }

  stop(): void {
    for (const [name, listener] of this.#channels) unsubscribe(name, listener as (message: unknown) => void);
    this.requests.length = 0;
    this.outages.length = 0;
    this.#views = new WeakMap();
    this.#byToken.clear();
    this.#changed.clear();
  }

  /** The requests that have changed since the last call. */
  takeChanges(): RequestView[] {
    const changed = [...this.#changed];
    this.#changed.clear();
    return changed;
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
    if (!this.#names.has(registry)) return;
    const view: RequestView = { id: ++this.#lastId, registry, owner, reason, atMs: this.#now() };
    this.#views.set(message, view);
    this.requests.push(view);
    this.#changed.add(view);
    if (this.requests.length > MAX_REQUESTS) this.#drop(this.requests.shift());
  }

  #drop(view: RequestView | undefined): void {
    if (!view) return;
    this.#changed.delete(view);
    if (view.token !== undefined && this.#byToken.get(view.token) === view) this.#byToken.delete(view.token);
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
    this.#changed.add(view);
  }

  #rejected({ token, wasHeld }: RejectionMessage): void {
    const view = wasHeld ? this.#byToken.get(token) : undefined;
    if (!view) return;
    view.rejectedAtMs = this.#now();
    this.#changed.add(view);
  }

  #paused({ registry, scope, action }: PauseMessage): void {
    if (scope === 'owner' || !this.#names.has(registry)) return;
    if (action === 'paused') this.outageBegan(registry, scope, this.#now());
    const ended = action === 'lifted' ? this.outages : [];
    for (const outage of ended) if (outage.registry === registry && outage.scope === scope) outage.toMs ??= this.#now();
  }
}
