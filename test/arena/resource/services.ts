/** The token service and the API of a scene, and what is counted of them. */

import type { IssuedToken } from '../../../src/index.ts';
import type { ManualClock } from '../../helpers/manual-clock.ts';
import type { ApiCall, ApiRule, ApiScene, ApiToken, TokenRule } from './scene.ts';

const TOKEN_MS = 80;
const API_MS = 40;

export class Services {
  readonly counts = { tokenRequests: 0, inFault: 0, apiCalls: 0 };
  readonly time: ManualClock;
  readonly random: () => number;
  /** The newest token of each owner. */
  readonly newest = new Map<number, ApiToken>();
  readonly #scene: ApiScene;
  readonly #api: readonly ApiRule[];
  readonly #tokenService: readonly TokenRule[];
  readonly #issued = new Map<string, ApiToken>();

  constructor(scene: ApiScene, time: ManualClock, random: () => number) {
    this.time = time;
    this.random = random;
    this.#scene = scene;
    this.#api = scene.api?.() ?? [];
    this.#tokenService = scene.tokens?.() ?? [];
  }

  /** A token request. Its error has a `status`, which the registry reads. */
  readonly requestToken = (accessKey: string): Promise<IssuedToken> =>
    new Promise((resolve, reject) => {
      const { lifeS, fault } = this.#scene;
      const request = { owner: ownerOf(accessKey), atMs: this.time.monotonicMs };
      const requestedAtMs = this.time.now();
      this.counts.tokenRequests++;
      if (fault && request.atMs >= fault[0] && request.atMs < fault[1]) this.counts.inFault++;
      const {
        status = 200,
        ms = TOKEN_MS * this.#aboutOne(),
        token: again,
      } = first(this.#tokenService, request, this) ?? {};
      let token: ApiToken | undefined;
      this.time.at(request.atMs + ms / 2, () => {
        if (status === 200) token = again ?? this.issue(request.owner);
      });
      this.time.at(request.atMs + ms, () => {
        if (token) resolve({ token: token.value, requestedAtMs, response: { expires_in: lifeS } });
        else reject(Object.assign(new Error(`the token service answered ${status}`), { status }));
      });
    });

  /** Issues a token to this owner, for whomever asked. */
  issue(owner: number): ApiToken {
    const { lifeS, trueLifeS = lifeS, replaces } = this.#scene;
    const before = this.newest.get(owner);
    if (before && replaces) before.revoked = true;
    const issuedMs = this.time.monotonicMs;
    const value = `token-${this.#issued.size}`;
    const token = { owner, value, issuedMs, endsMs: issuedMs + trueLifeS * 1_000, revoked: false };
    this.#issued.set(value, token);
    this.newest.set(owner, token);
    return token;
  }

  /** A call of the API. Resolves to its status. */
  callApi(accessKey: string, token: string, route: string): Promise<number> {
    return new Promise((resolve) => {
      const { apiMs = API_MS, refusalMs = apiMs } = this.#scene;
      const factor = this.#aboutOne();
      this.counts.apiCalls++;
      this.time.at(this.time.monotonicMs + (apiMs / 2) * factor, () => {
        const call = { owner: ownerOf(accessKey), route, atMs: this.time.monotonicMs, token: this.#issued.get(token) };
        const status = first(this.#api, call, this) ?? (this.isAlive(call) ? 200 : 401);
        this.time.at(this.time.monotonicMs + ((status === 401 ? refusalMs : apiMs) / 2) * factor, () =>
          resolve(status),
        );
      });
    });
  }

  /** Whether the token is this owner's and valid by a clock that is so far ahead. */
  isAlive(
    { owner, atMs, token }: ApiCall & { token: ApiToken | undefined },
    aheadMs = this.#scene.apiClockAheadMs ?? 0,
  ): boolean {
    if (!token || token.owner !== owner || token.revoked) return false;
    const byApi = atMs + aheadMs;
    return byApi >= token.issuedMs + (this.#scene.validAfterMs ?? 0) && byApi < token.endsMs;
  }

  #aboutOne(): number {
    return 0.8 + 0.4 * this.random();
  }
}

function first<Request, Answer>(
  rules: readonly ((request: Request, services: Services) => Answer | undefined)[],
  request: Request,
  services: Services,
): Answer | undefined {
  for (const rule of rules) {
    const answer = rule(request, services);
    if (answer !== undefined) return answer;
  }
  return undefined;
}

export const keyOf = (owner: number) => `owner-${owner}`;
const ownerOf = (accessKey: string) => Number(accessKey.slice('owner-'.length));
