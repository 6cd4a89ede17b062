/**
 * Scenes drawn from a seed: what may go wrong in production, in combinations that nobody chose. Nothing here is tuned to an
 * implementation; times and numbers are drawn on a logarithmic scale, because those of services differ by orders of magnitude.
 */

import { Random } from '../simulation/random.ts';
import {
  cutShort, deadKeys, during, failed, hangs, htmlPage, loginPage, noSuchHost, noToken, oauthError, outage, parallelLimit,
  quota, refusal, refusedConnection, reset, sometimes, windowQuota,
} from './rules.ts';
import { type Answer, MIN, type Request, type Rule, type Scene, SEC, type Span, type TenantGroup } from './scene.ts';

/** A world takes about a second: what it may cost. */
const MOST_CALLS = 40_000;
const MOST_REQUESTS = 10_000;
/** A tenth of the plain baseline's requests is a fair bound only if they are many. */
const MANY_REQUESTS = 1_500;
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
  readonly #tenants: TenantGroup[] = [];
  readonly #uncounted: Span[] = [];
  /** Rules in the order in which they decide; those that keep count come last. */
  readonly #failures: Rule[] = [];
  readonly #limits: (() => Rule)[] = [];
  #isAboveLimit = false;
  readonly #scene: { -readonly [Field in keyof Scene]?: Scene[Field] } = {};

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.#scene.tokenLifeS = this.#random.span(60, 7_200);
  }

  drawClientele(): void {
    const random = this.#random;
    const kind = random.pick(['established', 'established', 'newcomers', 'both', 'cold start', 'batch', 'few'] as const);
    const everyMs = random.span(3 * SEC, 5 * MIN);
    const newcomersPerSecond = random.span(20, 4_000) / 100;
    let known: Omit<TenantGroup, 'name'> | undefined;
    if (kind === 'established' || kind === 'both') known = { count: random.span(40, 600), everyMs };
    if (kind === 'cold start') {
      const burstMs = random.span(SEC, 30 * SEC);
      known = { count: random.span(200, 3_000), everyMs: random.span(20 * SEC, 2 * MIN), burstMs };
      // The service may take 32 at once, or as many a second.
      this.#scene.lateMs = 15 * SEC;
    }
    if (kind === 'batch') {
      const [periodMs, activeMs] = [random.span(3 * MIN, 15 * MIN), random.span(30 * SEC, 2 * MIN)];
      const pattern = (ms: number) => ms % periodMs < activeMs;
      known = { count: random.span(40, 600), everyMs: random.span(3 * SEC, MIN), pattern };
    }
    if (kind === 'few') {
      known = { count: random.span(3, 30), everyMs: random.span(SEC, 20 * SEC) };
      this.#scene.tokenLifeS = random.span(20, 600);
    }
    if (known) this.#tenants.push({ name: 'tenants', ...known });
    if (kind === 'newcomers') this.#tenants.push({ name: 'newcomers', perSecond: newcomersPerSecond });
    if (kind === 'both') this.#tenants.push({ name: 'newcomers', perSecond: newcomersPerSecond / 10 });
    const { count } = known ?? {};
    const perSecond = kind === 'newcomers' ? newcomersPerSecond : kind === 'both' ? newcomersPerSecond / 10 : 0;
    const newOnes = perSecond > 0 && `${perSecond} newcomers a second`;
    this.#said.push([count && `${count} tenants (${kind})`, newOnes].filter(Boolean).join(', '));
    const lifeS = this.#scene.tokenLifeS ?? 1;
    const requestsPerSecond = perSecond + Math.min(this.#callsPerSecond - perSecond, (count ?? 0) / lifeS);
    const mostS = Math.min(MOST_CALLS / this.#callsPerSecond, MOST_REQUESTS / requestsPerSecond);
    this.#scene.minutes = Math.max(3, Math.round(Math.min(mostS / 60, random.span(6, 40))));
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
    const troubles = [this.#dead, this.#dead, this.#trickle, this.#part, this.#shard, this.#outage, this.#outage, this.#limit];
    const chosen = new Set<() => void>();
    for (let n = 1 + this.#random.below(3); n > 0; n--) chosen.add(this.#random.pick(troubles));
    // In the order of the list, because rules that come first decide.
    for (const trouble of new Set([this.#outage, ...troubles])) if (chosen.has(trouble)) trouble.call(this);
  }

  drawTokenUse(): void {
    const random = this.#random;
    if (this.#isAboveLimit) return;
    if (random.chance(0.1)) {
      this.#scene.accepts = ({ isNewest }) => isNewest;
      this.#said.push('each token revokes the one before');
    } else if (random.chance(0.1)) {
      const forgotMs = this.#moment();
      this.#scene.accepts = ({ issuedMs }, atMs) => issuedMs >= forgotMs || atMs < forgotMs;
      this.#said.push('all tokens revoked at once');
    }
  }

  scene(seed: number): Scene {
    const { minutes = 1, ...rest } = this.#scene;
    const [failures, limits] = [this.#failures, this.#limits];
    return {
      name: `world ${seed}: ${this.#said.join('; ')}`,
      ...{ ...rest, minutes, tenants: this.#tenants, uncounted: this.#uncounted },
      rules: () => [...failures, ...limits.map((make) => make())],
    };
  }

  // ---- What goes wrong ----

  #outage(): void {
    const random = this.#random;
    const lengthMs = random.chance(0.4) ? random.span(5 * MIN, 10 * MIN) : random.span(5 * SEC, 2 * MIN);
    const [what, answer] = random.pick(DOWN);
    const isAtStart = random.chance(0.15);
    const fromMs = isAtStart ? 0 : this.#moment();
    const toMs = fromMs + lengthMs;
    const retryAfterS = this.#drawRetryAfter(answer, lengthMs);
    this.#uncounted.push(
      retryAfterS === undefined
        ? [toMs, toMs + 30 * SEC]
        : [fromMs, toMs + Math.max(30 * SEC, retryAfterS * SEC)],
    );
    const told = retryAfterS === undefined ? answer : { ...answer, headers: { 'retry-after': String(retryAfterS) } };
    this.#failures.push(during([fromMs, toMs], outage(told)));
    this.#scene.minutes = Math.max(this.#scene.minutes ?? 0, Math.ceil(toMs / MIN) + 5);
    const isLong = lengthMs >= 5 * MIN && this.#plainRequests(lengthMs, answer) >= MANY_REQUESTS;
    if (isLong) this.#scene.longOutage = true;
    // What was refreshed early must not hide a slow recovery.
    const countsAfterwards = isLong && random.chance(0.5);
    if (countsAfterwards) this.#uncounted.push([0, toMs]);
    const retryAfter = retryAfterS === undefined ? '' : `, Retry-After ${retryAfterS}`;
    this.#said.push(
      `${isAtStart ? 'starts into an ' : ''}outage of ${seconds(lengthMs)} (${what}${retryAfter})${countsAfterwards ? ', afterwards' : ''}`,
    );
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
      const everyMs = random.span(Math.max(200, 50 * count), 2 * MIN);
      const group = { name: 'dead', count, everyMs };
      if (random.chance(0.3)) {
        const revokedMs = this.#moment();
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
    const burst = this.#tenants.reduce((sum, { burstMs, count = 0 }) => sum + (burstMs === undefined ? 0 : count), 0);
    this.#late(2 * SEC * (burst / perSecond));
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
    return Math.round((this.#scene.minutes ?? 1) * MIN * (0.2 + 0.4 * this.#random.next()));
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

  #slowestMs(): number {
    return this.#scene.latencyMs === undefined || typeof this.#scene.latencyMs === 'function'
      ? 5_000
      : this.#scene.latencyMs;
  }

  /** About how many requests the plain baseline makes in an outage. */
  #plainRequests(lengthMs: number, { ms = 0 }: Answer): number {
    const lifeMs = SEC * (this.#scene.tokenLifeS ?? 0);
    const perSecond = this.#tenants.reduce((sum, { ill, perSecond = 0, count = 0, everyMs = 1, pattern }) => {
      if (ill || pattern) return sum;
      return sum + perSecond + ((count * SEC) / everyMs) * Math.min(1, lengthMs / lifeMs) * 0.5;
    }, 0);
    return (lengthMs / SEC) * (ms < MIN ? perSecond : Math.min(PLAIN_HANGS_PER_SECOND, perSecond));
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
