/** The scripted token service of a scene, and the count of requests that it did not want. */

import type { ManualClock } from '../helpers/manual-clock.ts';
import {
  type Answer,
  type Issued,
  type Request,
  type Rule,
  type Scene,
  SEC,
  type TenantGroup,
  type Unwanted,
} from './scene.ts';

/** How often a dead key may be asked for. */
const DEAD_KEY_MS = 10_000;
/** A request without an answer is given up by whoever keeps it longer than this. */
const NEVER_MS = 600_000;
/** How long a call takes to reach the API. */
const API_MS = 20;
const DEFAULT_LATENCY_MS = 80;
const DEFAULT_LIFE_S = 3_600;

export class Service {
  readonly counts: Record<Unwanted | 'sent', number> = { sent: 0, outage: 0, limit: 0, dead: 0 };
  inFlight = 0;
  /** For rules that draw lots. */
  readonly random: () => number;
  readonly #scene: Scene;
  readonly #time: ManualClock;
  readonly #rules: readonly Rule[];
  readonly #groups: ReadonlyMap<string, TenantGroup>;
  /** When each dead key may be asked for again. */
  readonly #quietUntilMs = new Map<string, number>();
  readonly #issued: Omit<Issued, 'isNewest'>[] = [];
  readonly #newestOf = new Map<string, number>();

  constructor(scene: Scene, time: ManualClock, random: () => number) {
    this.#scene = scene;
    this.#time = time;
    this.random = random;
    this.#rules = scene.rules?.() ?? [];
    this.#groups = new Map(scene.tenants.map((group) => [group.name, group]));
  }

  /** The client secret, where subjects read it for each request. */
  readSecret(): string {
    if (this.random() < (this.#scene.secretFails ?? 0)) throw new Error('the vault is sealed');
    return 'a-client-secret';
  }

  /** Whether calls present their token to the API. */
  get hasApi(): boolean {
    return this.#scene.accepts !== undefined;
  }

  /** A call of the API with this token. Resolves to whether it was accepted. */
  callApi(token: string): Promise<boolean> {
    return new Promise((resolve) => {
      this.#time.at(this.#time.monotonicMs + API_MS, () => resolve(this.#accepts(token)));
    });
  }

  /** The token endpoint. */
  readonly fetch = (_url: unknown, init?: RequestInit): Promise<Response> =>
    new Promise((resolve, reject) => {
      const owner = ownerIn(init?.body);
      const answer = this.#receive(owner);
      const isToken = !answer.error && (answer.status ?? 200) === 200 && answer.body === undefined;
      const text = isToken || answer.issues ? this.#issue(owner) : '';
      const { signal } = init ?? {};
      const end = () => {
        this.inFlight--;
        signal?.removeEventListener('abort', abort);
      };
      const cancel = this.#time.at(this.#time.monotonicMs + answer.ms, () => {
        end();
        if (answer.error) reject(connectionError(answer.error));
        else resolve(responseOf({ ...answer, headers: this.#headersOf(answer) }, answer.body ?? text));
      });
      const abort = () => {
        cancel();
        end();
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', abort, { once: true });
      this.inFlight++;
    });

  #receive(owner: string): Answer & { readonly ms: number } {
    const dash = owner.lastIndexOf('-');
    const group = this.#groups.get(owner.slice(0, dash));
    if (!group) throw new Error(`no group of the scene has an owner ${owner}`);
    const request = { owner, group, number: Number(owner.slice(dash + 1)), atMs: this.#time.monotonicMs };
    let answer: Answer | undefined;
    for (const rule of this.#rules) {
      answer = rule(request, this);
      if (answer) break;
    }
    this.counts.sent++;
    const { unwanted } = answer ?? {};
    if (unwanted && (unwanted !== 'dead' || this.#isTooSoon(request, answer))) this.counts[unwanted]++;
    return { ...answer, ms: Math.min(NEVER_MS, answer?.ms ?? this.#latencyMs(request)) };
  }

  #isTooSoon({ owner, atMs }: Request, answer: Answer | undefined): boolean {
    const isTooSoon = atMs < (this.#quietUntilMs.get(owner) ?? 0);
    const retryAfterMs = 1_000 * Number(answer?.headers?.['retry-after'] ?? 0);
    if (!isTooSoon) this.#quietUntilMs.set(owner, atMs + Math.max(DEAD_KEY_MS, retryAfterMs));
    return isTooSoon;
  }

  #latencyMs(request: Request): number {
    const { latencyMs = DEFAULT_LATENCY_MS } = this.#scene;
    const ms = typeof latencyMs === 'function' ? latencyMs(request, this) : latencyMs;
    return ms * (0.8 + 0.4 * this.random());
  }

  /** A token counts as issued when the request arrives, so that an answer on its way already revokes the token before. */
  #issue(owner: string): string {
    const { tokenLifeS = DEFAULT_LIFE_S, repeatsTokens } = this.#scene;
    const nowMs = this.#time.monotonicMs;
    let number = this.#newestOf.get(owner) ?? 0;
    const endsMs = (this.#issued[number - 1]?.issuedMs ?? Number.NEGATIVE_INFINITY) + tokenLifeS * SEC;
    const isRepeated = repeatsTokens && nowMs < endsMs;
    if (!isRepeated) number = this.#issued.push({ owner, issuedMs: nowMs });
    this.#newestOf.set(owner, number);
    const expires_in = isRepeated ? Math.floor((endsMs - nowMs) / SEC) : tokenLifeS;
    return JSON.stringify({ access_token: this.#valueOf(number, tokenLifeS), token_type: 'Bearer', expires_in });
  }

  #valueOf(number: number, tokenLifeS: number): string {
    const { clockAheadMs } = this.#scene;
    if (clockAheadMs === undefined) return `token-${number}`;
    const iat = Math.floor(
      (this.#time.now() - this.#time.monotonicMs + (this.#issued[number - 1]?.issuedMs ?? 0)) / SEC,
    );
    return `e30.${Buffer.from(JSON.stringify({ iat, exp: iat + tokenLifeS })).toString('base64url')}.token-${number}`;
  }

  /** With a clock of its own, the service states times by it. */
  #headersOf({ headers = {} }: Answer): NonNullable<Answer['headers']> {
    if (this.#scene.clockAheadMs === undefined) return headers;
    const dateIn = (seconds: number) => new Date(this.#time.now() + seconds * SEC).toUTCString();
    const { 'retry-after': seconds } = headers;
    return { ...headers, date: dateIn(0), ...(seconds !== undefined && { 'retry-after': dateIn(Number(seconds)) }) };
  }

  #accepts(token: string): boolean {
    const number = Number(token.slice(token.lastIndexOf('-') + 1));
    const issued = this.#issued[number - 1];
    if (!issued) throw new Error(`the service has not issued ${token}`);
    const isNewest = this.#newestOf.get(issued.owner) === number;
    return this.#scene.accepts?.({ ...issued, isNewest } satisfies Issued, this.#time.monotonicMs, this.random) ?? true;
  }
}

/** The access key of a token request in JSON, or in a form, which some clients send. */
function ownerIn(body: unknown): string {
  const text = String(body);
  const owner: unknown = text.startsWith('{')
    ? JSON.parse(text).appliance_owner_scope
    : new URLSearchParams(text).get('appliance_owner_scope');
  if (typeof owner !== 'string') throw new Error('a token request without appliance_owner_scope');
  return owner;
}

/** A failed connection, as `fetch` reports it. */
const connectionError = (code: string) =>
  new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) });

/** What a client reads of a `Response`, without its stream, which would take a quarter of the arena's time. */
function responseOf({ status = 200, headers }: Answer, text: string): Response {
  return { status, headers: new Map(Object.entries(headers ?? {})), text: async () => text } as unknown as Response;
}
