/**
 * Scenes drawn from a seed: what may go wrong in production, in combinations that nobody chose. Nothing here is tuned to an
 * implementation; times and numbers are drawn on a logarithmic scale, because those of services differ by orders of magnitude.
 */

import { Random } from '../simulation/random.ts';
import {
  cutShort,
  deadKeys,
  during,
  failed,
  hangs,
  htmlPage,
  loginPage,
  noSuchHost,
  noToken,
  oauthError,
  outage,
  parallelLimit,
  quota,
  refusal,
  refusedConnection,
  reset,
  sometimes,
  windowQuota,
} from './rules.ts';
import { type Answer, MIN, type Request, type Rule, type Scene, SEC, type Span, type TenantGroup } from './scene.ts';

/** A world takes about a second: what it may cost. */
const MOST_CALLS = 40_000;
const MOST_REQUESTS = 10_000;
/** Fewer calls would show more of chance than of what is compared. */
const LEAST_CALLS = 3_000;
/** A tenth of the plain baseline's requests is a fair bound for an outage only if they are many. */
const MANY_REQUESTS = 800;
const PLAIN_HANGS_PER_SECOND = 3;

type Named<T> = readonly [name: string, value: T];

/** What a key that does not work gets. */
const DEAD: readonly Named<Answer>[] = [
  ['404', refusal(404)],
  ['403', refusal(403)],
  ['401', refusal(401)],
  ['500', failed],
  ['503', refusal(503)],
  ['429', refusal(429)],
  ['429, Retry-After 120', refusal(429, 120)],
  ['503, Retry-After 600', refusal(503, 600)],
  ['invalid_grant', oauthError(400, 'invalid_grant')],
  ['invalid_client', oauthError(401, 'invalid_client')],
  ['invalid_request', oauthError(400, 'invalid_request')],
  ['unauthorized_client', oauthError(400, 'unauthorized_client')],
  ['invalid_scope', oauthError(400, 'invalid_scope')],
  ['405', refusal(405)],
  ['403 HTML', htmlPage(403)],
  ['a login page', loginPage],
  ['200 without a token', noToken],
  ['half an answer', cutShort],
  ['a reset', reset],
  ['no answer', hangs],
];

/** What a request gets by bad luck. */
const LONE: readonly Named<Answer>[] = [
  ['500', failed],
  ['502', htmlPage(502)],
  ['503', refusal(503)],
  ['503, Retry-After 2', refusal(503, 2)],
  ['429', refusal(429)],
  ['429, Retry-After 1', refusal(429, 1)],
  ['invalid_client', oauthError(401, 'invalid_client')],
  ['403 HTML', htmlPage(403)],
  ['half an answer', cutShort],
  ['a reset', reset],
  ['a reset after the token was issued', { ...reset, issues: true }],
  ['a refused connection', refusedConnection],
  ['no answer', hangs],
];

/** What everybody gets while the service is down. */
const DOWN: readonly Named<Answer>[] = [
  ['503', refusal(503)],
  ['500', failed],
  ['502 HTML', htmlPage(502)],
  ['429', refusal(429)],
  ['invalid_client', oauthError(401, 'invalid_client')],
  ['401', refusal(401)],
  ['403 HTML', htmlPage(403)],
  ['a login page', loginPage],
  ['refused connections', refusedConnection],
  ['resets', reset],
  ['unknown host', noSuchHost],
  ['no answer', hangs],
];

/** The world of a seed. */
export function randomWorld(seed: number): Scene {
  const world = new WorldInTheMaking(seed);
  world.drawClientele();
  world.drawLatency();
  world.drawTroubles();
  world.drawTokenUse();
  return world.scene(seed);
}

class WorldInTheMaking {
  readonly #random: Random;
  readonly #said: string[] = [];
  #tenants: TenantGroup[] = [];
  readonly #uncounted: Span[] = [];
  /** Rules in the order in which they decide; those that keep count come last. */
  readonly #failures: Rule[] = [];
  readonly #limits: (() => Rule)[] = [];
  #isAboveLimit = false;
  #activeShare = 1;
  /** How many call at once at the start. */
  #burst = 0;
  readonly #scene: { -readonly [Field in keyof Scene]?: Scene[Field] } = {};

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.#scene.tokenLifeS = this.#random.span(30, 3_600);
  }

  drawClientele(): void {
    const random = this.#random;
    const kind = random.pick(['known', 'known', 'tiers', 'newcomers', 'both', 'cold start', 'batch', 'few'] as const);
    const count = random.span(40, 600);
    switch (kind) {
      case 'known':
      case 'both':
        this.#addTenants({ count, everyMs: random.span(3 * SEC, 3 * MIN) });
        break;
      case 'tiers':
        // A few tenants make most of the calls.
        this.#addTenants({ name: 'large', count: Math.ceil(count / 20), everyMs: random.span(SEC, 5 * SEC) });
        this.#addTenants({ name: 'middle', count: Math.ceil(count / 4), everyMs: random.span(20 * SEC, MIN) });
        this.#addTenants({ name: 'small', count, everyMs: random.span(2 * MIN, 15 * MIN) });
        break;
      case 'cold start':
        this.#burst = 5 * count;
        this.#addTenants({
          count: this.#burst,
          everyMs: random.span(20 * SEC, 2 * MIN),
          burstMs: random.span(SEC, 30 * SEC),
        });
        this.#late(15 * SEC); // Whoever makes 32 requests at once needs as long.
        break;
      case 'batch': {
        const [periodMs, activeMs] = [random.span(2 * MIN, 10 * MIN), random.span(30 * SEC, 2 * MIN)];
        const pattern = (ms: number) => ms % periodMs < activeMs;
        this.#activeShare = activeMs / periodMs;
        this.#addTenants({ count, everyMs: random.span(3 * SEC, 30 * SEC), pattern });
        this.#said.push(`for ${seconds(activeMs)} of each ${seconds(periodMs)}`);
        break;
      }
      case 'few':
        this.#addTenants({ count: random.span(3, 30), everyMs: random.span(SEC, 10 * SEC) });
        break;
      case 'newcomers':
        break;
    }
    if (kind === 'newcomers' || kind === 'both')
      this.#addNewcomers(random.span(10, kind === 'both' ? 500 : 4_000) / 100);
    const callsPerSecond = this.#callsPerSecond * this.#activeShare;
    const most = Math.min(MOST_CALLS / callsPerSecond, MOST_REQUESTS / this.#requestsPerSecond());
    const least = LEAST_CALLS / callsPerSecond;
    this.#scene.minutes =
      Math.ceil(Math.min(most, (45 * MIN) / SEC, Math.max(least, random.span(6, 30) * 60)) / 60) + 2;
  }

  #addTenants(group: Omit<TenantGroup, 'name'> & { readonly name?: string }): void {
    this.#tenants.push({ name: 'tenants', ...group });
    const { count, name = 'tenants', everyMs = 0, burstMs } = group;
    const burst = burstMs === undefined ? '' : ` and first within ${seconds(burstMs)}`;
    this.#said.push(`${count} ${name} every ${seconds(everyMs)}${burst}`);
  }

  #addNewcomers(perSecond: number): void {
    this.#tenants.push({ name: 'newcomers', perSecond });
    this.#said.push(`${perSecond} newcomers a second`);
  }

  drawLatency(): void {
    const random = this.#random;
    const ms = random.span(15, 800);
    const slowMs = random.span(1_000, 5_000);
    switch (random.pick(['constant', 'constant', 'classes', 'tail', 'wave', 'spell'] as const)) {
      case 'constant':
        this.#scene.latencyMs = ms;
        this.#said.push(`${ms} ms`);
        return;
      case 'classes': {
        this.#scene.latencyMs = ({ number }) => (number % 10 === 0 ? slowMs : ms);
        this.#said.push(`${ms} ms, a tenth of the owners ${slowMs} ms`);
        break;
      }
      case 'tail': {
        const draw = new Random(random.below(2 ** 32));
        const isSlow = memoize((_request: Request) => draw.chance(0.02));
        this.#scene.latencyMs = (request) => (isSlow(request) ? slowMs : ms);
        this.#said.push(`${ms} ms, 2 % ${slowMs} ms`);
        break;
      }
      case 'wave': {
        const periodMs = random.span(MIN, 10 * MIN);
        this.#scene.latencyMs = ({ atMs }) => ms * (2 - Math.cos((2 * Math.PI * atMs) / periodMs));
        this.#said.push(`${ms} to ${3 * ms} ms`);
        break;
      }
      case 'spell': {
        const fromMs = this.#moment();
        const toMs = fromMs + random.span(10 * SEC, 2 * MIN);
        this.#scene.latencyMs = ({ atMs }) => (atMs >= fromMs && atMs < toMs ? slowMs : ms);
        this.#said.push(`${ms} ms, for ${seconds(toMs - fromMs)} ${slowMs} ms`);
        break;
      }
    }
    this.#late(2 * slowMs);
  }

  drawTroubles(): void {
    const troubles = [
      this.#dead,
      this.#dead,
      this.#trickle,
      this.#part,
      this.#shard,
      this.#outage,
      this.#outage,
      this.#limit,
    ];
    const chosen = new Set<() => void>();
    for (let n = 1 + this.#random.below(4); n > 0; n--) chosen.add(this.#random.pick(troubles));
    // In the order of the list, because rules that come first decide.
    for (const trouble of new Set([this.#outage, ...troubles])) if (chosen.has(trouble)) trouble.call(this);
  }

  drawTokenUse(): void {
    const random = this.#random;
    if (this.#isAboveLimit) return;
    const use = random.next();
    if (use < 0.1) {
      this.#scene.accepts = ({ isNewest }) => isNewest;
      this.#said.push('each token revokes the one before');
    } else if (use < 0.2) {
      const forgotMs = this.#moment();
      this.#scene.accepts = ({ issuedMs }, atMs) => issuedMs >= forgotMs || atMs < forgotMs;
      this.#said.push('all tokens revoked at once');
    }
  }

  scene(seed: number): Scene {
    const { minutes = 1, ...rest } = this.#scene;
    const [failures, limits] = [this.#failures, this.#limits];
    return {
      name: `world ${seed}: ${this.#said.join('; ')}; tokens of ${rest.tokenLifeS} s`,
      ...{ ...rest, minutes, tenants: this.#tenants, uncounted: this.#uncounted },
      rules: () => [...failures, ...limits.map((make) => make())],
    };
  }

  // ---- What goes wrong ----

  #outage(): void {
    const random = this.#random;
    const [what, answer] = random.pick(DOWN);
    const longMs = random.span(5 * MIN, 10 * MIN);
    const isLong = random.chance(0.6) && this.#leastRequestsOfPlain(longMs, answer) >= MANY_REQUESTS;
    const lengthMs = isLong ? longMs : random.span(5 * SEC, 2 * MIN);
    const isAtStart = random.chance(0.15);
    const fromMs = isAtStart ? 0 : this.#moment();
    const toMs = fromMs + lengthMs;
    const retryAfterS = this.#drawRetryAfter(answer, lengthMs);
    const isFair = this.#spreadStarts();
    const quietMs = Math.max(30 * SEC, (retryAfterS ?? 0) * SEC);
    this.#uncounted.push([retryAfterS === undefined && (isFair || isAtStart) ? toMs : fromMs, toMs + quietMs]);
    const told = retryAfterS === undefined ? answer : { ...answer, headers: { 'retry-after': String(retryAfterS) } };
    this.#failures.push(during([fromMs, toMs], outage(told)));
    this.#scene.minutes = Math.max(this.#scene.minutes ?? 0, Math.ceil(toMs / MIN) + 5);
    if (isLong) this.#scene.longOutage = true;
    // What was refreshed early must not hide a slow recovery.
    const countsAfterwards = isLong && random.chance(0.5);
    if (countsAfterwards) this.#uncounted.push([0, toMs]);
    const retryAfter = retryAfterS === undefined ? '' : `, Retry-After ${retryAfterS}`;
    this.#said.push(
      `${isAtStart ? 'starts into an ' : ''}outage of ${seconds(lengthMs)} (${what}${retryAfter})${countsAfterwards ? ', afterwards' : ''}`,
    );
  }

  /**
   * Tenants ask for their first token at any time within a token's life. If all tokens ended at once, only luck would decide
   * who has renewed them just before an outage.
   *
   * @returns whether that could be done.
   */
  #spreadStarts(): boolean {
    const lifeS = Math.min(this.#scene.tokenLifeS ?? 1, Math.round((this.#scene.minutes ?? 1) * 15));
    this.#scene.tokenLifeS = lifeS;
    const isSet = ({ pattern, burstMs }: TenantGroup) => pattern !== undefined || burstMs !== undefined;
    if (this.#tenants.some(isSet)) return false;
    this.#tenants = this.#tenants.map((group) => (group.count ? { ...group, burstMs: lifeS * SEC } : group));
    return true;
  }

  #drawRetryAfter({ status }: Answer, lengthMs: number): number | undefined {
    if ((status !== 503 && status !== 429) || this.#random.chance(0.5)) return undefined;
    return this.#random.pick([this.#random.span(2, 30), Math.ceil(lengthMs / SEC), 1_800]);
  }

  #dead(): void {
    const random = this.#random;
    const [what, answer] = random.pick(DEAD);
    if (random.chance(0.25)) {
      const perSecond = random.span(10, 500) / 100;
      this.#tenants.push({ name: 'dead', perSecond, ill: true });
      this.#said.push(`${perSecond} dead newcomers a second (${what})`);
    } else {
      const count = random.span(1, 300);
      // A backend that polls its dead key each second is one of a few.
      const everyMs = random.span(Math.max(200, 100 * count), 2 * MIN);
      const group = { name: 'dead', count, everyMs };
      if (random.chance(0.3)) {
        const revokedMs = this.#moment();
        // Their tokens must end within the scene, or only those who refresh early would notice.
        this.#spreadStarts();
        this.#tenants.push({ ...group, illFromMs: revokedMs, illUntilMs: Number.POSITIVE_INFINITY });
        this.#failures.push(during([revokedMs, Number.POSITIVE_INFINITY], deadKeys('dead', answer)));
        this.#said.push(`${count} keys revoked (${what})`);
        return;
      }
      this.#tenants.push({ ...group, ill: true });
      this.#said.push(`${count} dead keys (${what})`);
    }
    this.#failures.push(deadKeys('dead', answer));
  }

  #trickle(): void {
    const [what, answer] = this.#random.pick(LONE);
    const share = this.#random.span(30, 500) / 10_000;
    this.#failures.push(sometimes(share, answer));
    this.#said.push(`${(100 * share).toFixed(1)} % of requests get ${what}`);
  }

  #part(): void {
    const [what, answer] = this.#random.pick(LONE);
    const share = this.#random.span(10, 50) / 100;
    const fromMs = this.#moment();
    const toMs = fromMs + this.#random.span(20 * SEC, 5 * MIN);
    this.#failures.push(during([fromMs, toMs], sometimes(share, answer)));
    this.#said.push(`for ${seconds(toMs - fromMs)} ${Math.round(100 * share)} % get ${what}`);
  }

  /** Owners of its own, beside the others. They may pause for as long as it was down, and five minutes at most. */
  #shard(): void {
    const random = this.#random;
    const [what, answer] = random.pick(DEAD);
    const lengthMs = random.span(20 * SEC, 10 * MIN);
    const fromMs = this.#moment();
    const toMs = fromMs + lengthMs;
    const retryAfterMs = SEC * Number(answer.headers?.['retry-after'] ?? 0);
    const illUntilMs = toMs + Math.max(30 * SEC, Math.min(5 * MIN, lengthMs)) + retryAfterMs;
    const count = random.span(5, 80);
    const everyMs = random.span(5 * SEC, 2 * MIN);
    this.#tenants.push({ ...{ name: 'shard', count, everyMs, illFromMs: fromMs, illUntilMs } });
    this.#failures.push(during([fromMs, toMs], deadKeys('shard', answer)));
    this.#said.push(`a shard of ${count} fails for ${seconds(lengthMs)} (${what})`);
  }

  #limit(): void {
    const random = this.#random;
    const [first] = this.#tenants;
    if (first?.perSecond && this.#uncounted.length === 0 && random.chance(0.6)) {
      this.#limitBelowDemand(first.perSecond);
      return;
    }
    // Demand, if no token were held, fits in; a burst must wait.
    const perSecond = 2 + Math.ceil(this.#callsPerSecond * (1.3 + 2 * random.next()));
    if (random.chance(0.3)) {
      const most = Math.ceil(4 + 3 * perSecond * (this.#slowestMs() / SEC));
      const status = random.pick([429, 503]);
      this.#limits.push(() => parallelLimit(most, status));
      this.#said.push(`at most ${most} at once (${status})`);
    } else {
      const status = random.pick([429, 503]);
      this.#limits.push(() => quota({ perSecond, status }));
      this.#said.push(`at most ${perSecond} a second (${status})`);
    }
    this.#late(2 * SEC * (this.#burst / perSecond));
  }

  #limitBelowDemand(demand: number): void {
    const random = this.#random;
    const share = 0.3 + 0.6 * random.next();
    const perSecond = Math.max(1, demand * share);
    this.#isAboveLimit = true;
    this.#scene.ideal = Math.min(100, (100 * perSecond) / demand);
    if (random.chance(0.4)) {
      this.#limits.push(() => windowQuota({ count: Math.ceil(60 * perSecond) }));
      this.#scene.minutes = Math.max(4, this.#scene.minutes ?? 0);
      this.#said.push(`${perSecond.toFixed(1)} a second given, by the minute`);
    } else {
      const retryAfterS = random.chance(0.3) ? 1 : undefined;
      this.#limits.push(() => quota({ perSecond, ...(retryAfterS && { retryAfterS }) }));
      this.#said.push(`${perSecond.toFixed(1)} a second given${retryAfterS ? ', Retry-After 1' : ''}`);
    }
  }

  // ---- What follows from what was drawn ----

  /** A time in the middle of the scene. */
  #moment(): number {
    return Math.round((this.#scene.minutes ?? 1) * MIN * (0.3 + 0.3 * this.#random.next()));
  }

  #late(ms: number): void {
    this.#scene.lateMs = Math.round(Math.max(2 * SEC, this.#scene.lateMs ?? 0, ms));
  }

  /** The requests a second if no tenant had a token. */
  get #callsPerSecond(): number {
    return this.#tenants.reduce((sum, { perSecond = 0, count = 0, everyMs }) => {
      return sum + perSecond + (everyMs === undefined ? 0 : (count * SEC) / everyMs);
    }, 0);
  }

  /** What is left of them with tokens. */
  #requestsPerSecond(): number {
    const lifeMs = SEC * (this.#scene.tokenLifeS ?? 1);
    return this.#tenants.reduce((sum, { perSecond = 0, count = 0, everyMs = 1 }) => {
      return sum + perSecond + (count * SEC) / Math.max(everyMs, lifeMs);
    }, 0);
  }

  #slowestMs(): number {
    return this.#scene.latencyMs === undefined || typeof this.#scene.latencyMs === 'function'
      ? 5_000
      : this.#scene.latencyMs;
  }

  /** How many requests the plain baseline makes in an outage, at least: all owners ask again once their tokens have ended. */
  #leastRequestsOfPlain(lengthMs: number, { ms = 0 }: Answer): number {
    const emptyMs = Math.max(0, lengthMs - SEC * (this.#scene.tokenLifeS ?? 0));
    const requests = this.#tenants.reduce((sum, { perSecond = 0, count = 0, everyMs, pattern }) => {
      const known = pattern || !everyMs ? 0 : (count * emptyMs) / everyMs;
      return sum + perSecond * (lengthMs / SEC) + known;
    }, 0);
    return ms < MIN ? requests : Math.min(PLAIN_HANGS_PER_SECOND * (lengthMs / SEC), requests);
  }
}

const seconds = (ms: number) => `${Math.round(ms / SEC)} s`;

function memoize<T extends object>(draw: (of: T) => boolean): (of: T) => boolean {
  const drawn = new WeakMap<T, boolean>();
  return (of) => {
    const known = drawn.get(of) ?? draw(of);
    drawn.set(of, known);
    return known;
  };
}
