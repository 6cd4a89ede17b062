/**
 * A world in virtual time: owners who make calls, a service that ends tokens at a lifetime it does not tell, and the
 * registry's rules of serving and refreshing ahead in between. Calls take no time. All chance comes from the seed.
 */

/** Mulberry32. */
export function randomOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * @param world.phases        `[{ lifetimeMs, lifetimes }]`, one after the other; counted each for itself
 * @param world.callsPerLifetime of each owner, measured in the lifetime of the phase
 * @param world.burst         mean number of calls that come together; 1: Poisson
 * @param world.together   mean number of calls at the very same instant
 * @param world.spread     how unlike the owners are: the busiest call this many times as often as the quietest
 * @param world.revoked       share of tokens that are revoked at some moment of their life
 * @param world.spurious      share of calls that are answered 401 for no reason
 * @param world.policyFor     makes the policy; told the current lifetime by a function, for one that knows
 * @param world.planLife      the registry's
 */
export function runWorld(world) {
  const { phases, policyFor, planLife, owners = 100, callsPerLifetime = 60, burst = 1, together = 1 } = world;
  const {
    revokedPerCall = 0,
    spread = 1,
    revoked = 0.01,
    spurious = 0.005,
    refreshWindow = [0.6, 0.8],
    seed = 1,
    onCall,
  } = world;
  const random = randomOf(seed);
  const exponential = (mean) => -Math.log(1 - random()) * mean;
  let phase = 0;
  let phaseEndsMs = phases[0].lifetimeMs * phases[0].lifetimes;
  const lifetime = () => phases[phase].lifetimeMs;
  const policy = policyFor(lifetime);
  const counts = phases.map(() => ({ calls: 0, requests: 0, outlived: 0, injected: 0 }));
  const held = Array.from({ length: owners }, () => undefined);
  const names = held.map((_, owner) => `owner-${owner}`);
  let issued = 0;

  const shares = held.map((_, owner) => spread ** (owner / Math.max(1, owners - 1)));
  const meanShare = shares.reduce((sum, share) => sum + share, 0) / owners;
  const gapMs = (owner) => {
    const meanMs = ((lifetime() / callsPerLifetime) * together * meanShare) / shares[owner];
    if (burst === 1) return exponential(meanMs);
    return random() < 1 / burst ? exponential(meanMs * burst) : exponential(meanMs / 50);
  };
  const request = (owner, nowMs) => {
    counts[phase].requests++;
    const token = `token-${seed}-${++issued}`;
    const lifetimeMs = policy.lifetimeMs({ token, requestedAtMs: nowMs });
    const plan = planLife({ requestedAtMs: nowMs, lifetimeMs, refreshWindow, random });
    const endsMs = nowMs + lifetime();
    const revokedMs = random() < revoked ? nowMs + random() * lifetime() : Infinity;
    held[owner] = { token, issuedMs: nowMs, endsMs, revokedMs, ...plan };
    return held[owner];
  };
  /** One call, or several at the same instant: they are given the same token and fail together. */
  const call = (owner, nowMs) => {
    const count = counts[phase];
    let token = held[owner];
    if (!token || nowMs >= token.expiresAtMs) token = request(owner, nowMs);
    else if (nowMs >= token.refreshAtMs) request(owner, nowMs);
    const size = together === 1 ? 1 : Math.ceil(Math.log(random()) / Math.log(1 - 1 / together));
    count.calls += size;
    for (let index = 0; index < size; index++) attempt(owner, token, nowMs, count);
  };
  const attempt = (owner, first, nowMs, count) => {
    let token = first;
    for (let attempts = 0; attempts < 2; attempts++) {
      const evidence = { owner: names[owner], token: token.token, ageMs: nowMs - token.issuedMs };
      const injected = nowMs >= token.revokedMs || random() < spurious || random() < revokedPerCall;
      if (nowMs < token.endsMs && !injected) return policy.accepted?.(evidence);
      if (nowMs >= token.endsMs) count.outlived++;
      else count.injected++;
      if (!token.rejected) policy.rejected?.(evidence);
      token.rejected = true;
      if (held[owner] === token) request(owner, nowMs);
      token = held[owner];
    }
  };

  const calls = new Heap(owners);
  for (let owner = 0; owner < owners; owner++) calls.push(gapMs(owner) * random(), owner);
  for (;;) {
    const nowMs = calls.at;
    while (nowMs >= phaseEndsMs) {
      if (++phase === phases.length) return { counts, policy };
      phaseEndsMs += phases[phase].lifetimeMs * phases[phase].lifetimes;
    }
    const owner = calls.owner;
    call(owner, nowMs);
    onCall?.(nowMs, policy);
    calls.replaceFirst(nowMs + gapMs(owner), owner);
  }
}

/** The owners by the time of their next call. */
class Heap {
  #at;
  #owner;
  #size = 0;

  constructor(capacity) {
    this.#at = new Float64Array(capacity);
    this.#owner = new Int32Array(capacity);
  }

  get at() {
    return this.#at[0];
  }

  get owner() {
    return this.#owner[0];
  }

  push(at, owner) {
    let place = this.#size++;
    while (place > 0 && this.#at[(place - 1) >> 1] > at) {
      this.#move((place - 1) >> 1, place);
      place = (place - 1) >> 1;
    }
    this.#at[place] = at;
    this.#owner[place] = owner;
  }

  replaceFirst(at, owner) {
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= this.#size) break;
      if (child + 1 < this.#size && this.#at[child + 1] < this.#at[child]) child++;
      if (this.#at[child] >= at) break;
      this.#move(child, place);
      place = child;
    }
    this.#at[place] = at;
    this.#owner[place] = owner;
  }

  #move(from, to) {
    this.#at[to] = this.#at[from];
    this.#owner[to] = this.#owner[from];
  }
}
