/** The token service of a setting and the API that its tokens are for, with a count of the requests that they did not want. */

import type { IssuedToken } from '../../src/index.ts';
import type { ManualClock } from '../helpers/manual-clock.ts';
import { type Answer, type Request, type Rule, SEC, type Setting, type TenantGroup, type Unwanted } from './setting.ts';
import { isAlive, jwtOf, type Token, Tokens } from './tokens.ts';

export const BASE_URL = 'https://service.example';

/** How often a dead key may be asked for. */
const DEAD_KEY_MS = 10_000;
/** A request without an answer is given up by whoever keeps it longer than this. */
const NEVER_MS = 600_000;
/** How long a call takes to reach the API, and its answer to come back. */
const API_MS = 20;
const DEFAULT_LATENCY_MS = 80;
const DEFAULT_LIFE_S = 3_600;

/** The token of a response, with the lifetime that it states. */
interface Stated {
  readonly token: Token;
  readonly expires_in: number;
}

export class Service {
  readonly counts: Record<Unwanted | 'sent', number> = { sent: 0, outage: 0, limit: 0, dead: 0 };
  inFlight = 0;
  readonly clock: ManualClock;
  /** For rules that leave something to chance. */
  readonly random: () => number;
  readonly tokens = new Tokens();
  readonly #setting: Setting;
  readonly #rules: readonly Rule[];
  readonly #apiRules: ReturnType<NonNullable<Setting['api']>>;
  readonly #groups: ReadonlyMap<string, TenantGroup>;
  /** When each dead key may be asked for again. */
  readonly #quietUntilMs = new Map<string, number>();

  constructor(setting: Setting, clock: ManualClock, random: () => number) {
    this.#setting = setting;
    this.clock = clock;
    this.random = random;
    this.#rules = setting.rules?.() ?? [];
    this.#apiRules = setting.api?.() ?? [];
    this.#groups = new Map(setting.tenants.map((group) => [group.name, group]));
  }

  /** The client secret, where subjects read it for each request. */
  readSecret(): string {
    if (this.random() < (this.#setting.secretFails ?? 0)) throw new Error('the vault is sealed');
    return 'a-client-secret';
  }

  /** Whether calls present their token to the API. */
  get hasApi(): boolean {
    return this.#setting.api !== undefined;
  }

  /** A call of the API. Resolves to its status. */
  callApi(accessKey: string, value: string, route = '/'): Promise<number> {
    const token = this.tokens.find(value);
    if (!token) throw new Error(`the service has not issued ${value}`);
    return new Promise((resolve) => {
      const { clock } = this;
      clock.at(clock.monotonicMs + API_MS, () => {
        const call = { ...this.#requestOf(accessKey), route, token };
        const status = firstAnswer(this.#apiRules, call, this) ?? (this.isAlive(call) ? 200 : 401);
        const { refusalMs = API_MS } = this.#setting;
        clock.at(call.atMs + (status === 401 ? refusalMs : API_MS), () => resolve(status));
      });
    });
  }

  /** Whether the API accepts a token, by a clock that is so far ahead, unless a rule says otherwise. */
  isAlive(
    { owner, atMs, token }: { owner: string; atMs: number; token: Token },
    aheadMs = this.#setting.apiClockAheadMs ?? 0,
  ): boolean {
    return isAlive(token, owner, atMs + aheadMs);
  }

  /** A token request, as a source makes it. Its error has a `status`, which the registry reads. */
  readonly requestToken = (accessKey: string): Promise<IssuedToken> =>
    new Promise((resolve, reject) => {
      const requestedAtMs = this.clock.now();
      this.#serve(accessKey, ({ status }, stated) => {
        if (!stated) reject(Object.assign(new Error(`the token service answered ${status}`), { status }));
        else resolve({ token: stated.token.value, requestedAtMs, response: { expires_in: stated.expires_in } });
      });
    });

  /** The token endpoint. */
  readonly fetch = (_url: unknown, init?: RequestInit): Promise<Response> =>
    new Promise((resolve, reject) => {
      const { signal } = init ?? {};
      const cancelRequest = this.#serve(accessKeyIn(init?.body), (answer, stated) => {
        signal?.removeEventListener('abort', abort);
        if (answer.error) reject(connectionError(answer.error));
        else resolve(responseOf({ ...answer, headers: this.#headersOf(answer) }, answer.body ?? bodyOf(stated)));
      });
      const abort = () => {
        cancelRequest();
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', abort, { once: true });
    });

  /**
   * Issues a token to this owner, whoever asked for it, or this one again. It counts as issued when the request arrives, so
   * that an answer on its way already revokes the token before.
   */
  issue(owner: string, again?: Token): Stated {
    const { tokenLifeS = DEFAULT_LIFE_S, trueLifeS = tokenLifeS } = this.#setting;
    if (again) return { token: again, expires_in: tokenLifeS };
    const { validAfterMs, revokesPrevious, repeatsTokens, clockAheadMs } = this.#setting;
    const { clock } = this;
    const nowMs = clock.monotonicMs;
    const how = { lifeMs: trueLifeS * SEC, validAfterMs, revokesPrevious, repeats: repeatsTokens };
    const token = this.tokens.issue(owner, nowMs, how, (number) => {
      const name = `token-${number}`;
      return clockAheadMs === undefined ? name : jwtOf(Math.floor(clock.now() / SEC), tokenLifeS, name);
    });
    const isRepeated = token.issuedMs < nowMs;
    return { token, expires_in: isRepeated ? Math.floor((token.endsMs - nowMs) / SEC) : tokenLifeS };
  }

  /** Receives a request, and answers it when it is time. Returns how to cancel it. */
  #serve(accessKey: string, answered: (answer: Answer, stated: Stated | undefined) => void): () => void {
    const answer = this.#receive(this.#requestOf(accessKey));
    const isToken = !answer.error && (answer.status ?? 200) === 200 && answer.body === undefined;
    const stated = isToken || answer.issues ? this.issue(accessKey, answer.token) : undefined;
    this.inFlight++;
    const cancel = this.clock.at(this.clock.monotonicMs + answer.ms, () => {
      this.inFlight--;
      answered(answer, isToken ? stated : undefined);
    });
    return () => {
      this.inFlight--;
      cancel();
    };
  }

  #receive(request: Request): Answer & { readonly ms: number } {
    const answer = firstAnswer(this.#rules, request, this);
    this.counts.sent++;
    const { unwanted } = answer ?? {};
    if (unwanted && (unwanted !== 'dead' || this.#isTooSoon(request, answer))) this.counts[unwanted]++;
    return { ...answer, ms: Math.min(NEVER_MS, answer?.ms ?? this.#latencyMs(request)) };
  }

  #requestOf(owner: string): Request {
    const dash = owner.lastIndexOf('-');
    const group = this.#groups.get(owner.slice(0, dash));
    if (!group) throw new Error(`no group of the setting has an owner ${owner}`);
    return { owner, group, number: Number(owner.slice(dash + 1)), atMs: this.clock.monotonicMs };
  }

  #isTooSoon({ owner, atMs }: Request, answer: Answer | undefined): boolean {
    const isTooSoon = atMs < (this.#quietUntilMs.get(owner) ?? 0);
    const retryAfterMs = 1_000 * Number(answer?.headers?.['retry-after'] ?? 0);
    if (!isTooSoon) this.#quietUntilMs.set(owner, atMs + Math.max(DEAD_KEY_MS, retryAfterMs));
    return isTooSoon;
  }

  #latencyMs(request: Request): number {
    const { latencyMs = DEFAULT_LATENCY_MS } = this.#setting;
    const ms = typeof latencyMs === 'function' ? latencyMs(request, this) : latencyMs;
    return ms * (0.8 + 0.4 * this.random());
  }

  /** With a clock of its own, the service states times by it. */
  #headersOf({ headers = {} }: Answer): NonNullable<Answer['headers']> {
    if (this.#setting.clockAheadMs === undefined) return headers;
    const dateIn = (seconds: number) => new Date(this.clock.now() + seconds * SEC).toUTCString();
    const { 'retry-after': seconds } = headers;
    return { ...headers, date: dateIn(0), ...(seconds !== undefined && { 'retry-after': dateIn(Number(seconds)) }) };
  }
}

/** What the first rule says that answers. */
function firstAnswer<Asked, Said>(
  rules: readonly ((asked: Asked, service: Service) => Said | undefined)[],
  asked: Asked,
  service: Service,
): Said | undefined {
  for (const rule of rules) {
    const answer = rule(asked, service);
    if (answer !== undefined) return answer;
  }
  return undefined;
}

/** The access key of a token request in JSON, or in a form, which some clients send. */
function accessKeyIn(body: unknown): string {
  const text = String(body);
  const accessKey: unknown = text.startsWith('{')
    ? JSON.parse(text).appliance_owner_scope
    : new URLSearchParams(text).get('appliance_owner_scope');
  if (typeof accessKey !== 'string') throw new Error('a token request without appliance_owner_scope');
  return accessKey;
}

const bodyOf = (stated: Stated | undefined) =>
  stated
    ? JSON.stringify({ access_token: stated.token.value, token_type: 'Bearer', expires_in: stated.expires_in })
    : '';

/** A failed connection, as `fetch` reports it. */
const connectionError = (code: string) =>
  new TypeError('fetch failed', { cause: Object.assign(new Error(code), { code }) });

/** What a client reads of a `Response`, without its stream, which would take a quarter of the arena's time. */
function responseOf({ status = 200, headers }: Answer, text: string): Response {
  return { status, headers: new Map(Object.entries(headers ?? {})), text: async () => text } as unknown as Response;
}
