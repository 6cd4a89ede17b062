/**
 * A world in virtual time: owners who make calls, a service that ends tokens at a lifetime it does not tell, and
 * between them a registry. Requests and calls take no time. All chance comes from the seed.
 */

import { seeded } from '../../helpers/seeded.mjs';

/**
 * Runs one world and counts, for each of its phases, calls, token requests, and calls made again because their token
 * had outlived the lifetime (`outlived`) or for another reason (`injected`).
 *
 * @param world.phases           `{ lifetimeMs, lifetimes }` each: the hidden lifetime, and for how many of it
 * @param world.policyFor        makes the policy; given what tells the hidden lifetime, for one that knows it
 * @param world.makeRegistry     makes an `OwnerTokenRegistry` with the options given
 * @param world.owners           how many
 * @param world.callsPerLifetime of each owner on average
 * @param world.burst            mean number of calls in quick succession; 1: Poisson
 * @param world.together         mean number of calls at the same instant
 * @param world.spread           how often the busiest owner calls for one call of the quietest
 * @param world.revoked          share of the tokens that are revoked, at some moment of their life
 * @param world.revokedPerCall   share of the calls before which the token is revoked
 * @param world.spurious         share of the calls that are answered 401 for no reason
 * @param world.revokedAllEveryMs how often all tokens of that moment are revoked at once
 * @param world.refuses          whether the service refuses every call at this time
 * @param world.odd              how many owners are odd
 * @param world.oddStayMs        after which time each odd owner leaves, and a new one takes its place
 * @param world.oddAnswer        whether an odd owner's call with a token of this age is accepted, given this random number
 * @param world.onCall           told the time and the policy at each call
 */
export async function runWorld(world) {
  const { phases, policyFor, makeRegistry, owners = 100, callsPerLifetime = 60, seed = 1 } = world;
  const { burst = 1, together = 1, spread = 1, revoked = 0.01, revokedPerCall = 0, spurious = 0.005, onCall } = world;
  const {
    odd = 0,
    oddAnswer = () => true,
    oddStayMs = Infinity,
    revokedAllEveryMs = Infinity,
    refuses = () => false,
  } = world;
  const random = seeded(seed);
  const exponential = (mean) => -Math.log(1 - random()) * mean;
  let phase = 0;
  let phaseEndsMs = phases[0].lifetimeMs * phases[0].lifetimes;
  let nowMs = 0;
  const lifetime = () => phases[phase].lifetimeMs;
  const counts = phases.map(() => ({ calls: 0, requests: 0, oddRequests: 0, outlived: 0, injected: 0 }));

  const isOdd = (owner) => owner >= owners - odd;
  /** The places of owners who stay are taken one after the other. */
  const nameOf = (owner) =>
    isOdd(owner) ? `odd-${owner}-${Math.floor(nowMs / oddStayMs + (owner % odd) / odd)}` : `owner-${owner}`;
  const shares = Array.from({ length: owners }, (_, owner) => spread ** (owner / Math.max(1, owners - 1)));
  const meanShare = shares.reduce((sum, share) => sum + share, 0) / owners;
  const gapMs = (owner) => {
    const meanMs = ((lifetime() / callsPerLifetime) * together * meanShare) / shares[owner];
    if (burst === 1) return exponential(meanMs);
    return random() < 1 / burst ? exponential(meanMs * burst) : exponential(meanMs / 50);
  };

  /** The service's tokens. One that is not here has ended. */
  const issued = new Map();
  let requests = 0;
  const requestToken = async (name) => {
    counts[phase][name.startsWith('odd') ? 'oddRequests' : 'requests']++;
    const token = `token-${seed}-${++requests}`;
    const revokedAloneMs = random() < revoked ? nowMs + random() * lifetime() : Infinity;
    const revokedMs = Math.min(revokedAloneMs, (Math.floor(nowMs / revokedAllEveryMs) + 1) * revokedAllEveryMs);
    issued.set(token, { name, atMs: nowMs, endsMs: nowMs + lifetime(), revokedMs });
    for (const [ended, { endsMs }] of issued) {
      if (endsMs > nowMs) break;
      issued.delete(ended);
    }
    return { token };
  };
  const answer = (token) => {
    const { name, atMs, endsMs, revokedMs } = issued.get(token) ?? { endsMs: 0 };
    if (name?.startsWith('odd')) return oddAnswer(nowMs - atMs, random()) ? 'accepted' : 'injected';
    if (refuses(nowMs)) return 'injected';
    if (nowMs >= endsMs) return 'outlived';
    return nowMs >= revokedMs || random() < spurious || random() < revokedPerCall ? 'injected' : 'accepted';
  };

  const policy = policyFor(lifetime);
  const clock = { now: () => START_MS + nowMs, monotonic: () => nowMs };
  const source = { requestToken };
  const registry = makeRegistry({ source, expiry: policy, clock, random, fingerprintKey: FINGERPRINT_KEY });
  const call = async (owner) => {
    const count = counts[phase];
    const size = together === 1 ? 1 : Math.ceil(Math.log(random()) / Math.log(1 - 1 / together));
    count.calls += size;
    const first = await registry.getToken(owner);
    for (let index = 0; index < size; index++) {
      let token = first;
      for (let attempts = 1; ; attempts++) {
        const status = answer(token.value);
        if (status === 'accepted') {
          registry.accept(owner, token);
          break;
        }
        count[status]++;
        registry.reject(owner, token);
        if (attempts === 2) break;
        token = await registry.getToken(owner);
      }
    }
  };

  const calls = new Heap(owners);
  for (let owner = 0; owner < owners; owner++) calls.push(gapMs(owner) * random(), owner);
  for (;;) {
    nowMs = calls.at;
    while (nowMs >= phaseEndsMs) {
      if (++phase === phases.length) return { counts, policy };
      phaseEndsMs += phases[phase].lifetimeMs * phases[phase].lifetimes;
    }
    const { owner } = calls;
    const before = requests;
    await call(nameOf(owner));
    // What was requested in the background arrives before time goes on.
    if (requests !== before) await new Promise((resolve) => setImmediate(resolve));
    onCall?.(nowMs, policy, phase);
    calls.replaceFirst(nowMs + gapMs(owner), owner);
  }
}

const START_MS = Date.UTC(2030, 0, 1);
/** The same in every run, since policies see fingerprints. */
const FINGERPRINT_KEY = new Uint8Array(32);

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
