/** Shared records that somebody damages, swaps and deletes while replicas use them, on a manual clock. */

import fc from 'fast-check';
import { SECRETS } from '../../helpers/canaries.ts';
import { settle } from '../../helpers/manual-clock.ts';
import { FleetSource, ModelFleet, type RedisHealth } from '../../helpers/model-fleet.ts';
import { mustBeTyped, mustNotLeak } from '../checks.ts';
import { plainTexts } from '../inputs.ts';
import { must, targetOf } from '../target.ts';

const OWNERS: readonly string[] = [SECRETS.accessKey, SECRETS.otherAccessKey];
const FIELDS = ['v', 'g', 'u', 'h', 'l', 'n', 'f', 'e', 'w'];
const LIFETIME_S = 60;
/** A call that finds Redis silent and its leaders dead makes a request of its own long before. */
const MOST_MS = 60_000;

const index = fc.nat(1);
const values = fc.oneof(
  plainTexts,
  fc.nat().map(String),
  fc.constantFrom('9007199254740993', '1e300', '-1', 'inf', '0x10'),
);
const healths = fc.constantFrom<RedisHealth>('up', 'up', 'down', 'hung', 'mute', 'read_only');
const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ do: fc.constant('call' as const), replica: index, owner: index }) },
    {
      weight: 3,
      arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(10, 300, 3_000, 40_000) }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('damage' as const),
        at: fc.nat(),
        field: fc.constantFrom(...FIELDS),
        value: values,
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('swap' as const),
        field: fc.oneof(fc.constant('all'), fc.constantFrom(...FIELDS)),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), at: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('message' as const), at: fc.nat(), text: values }) },
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constant('jump' as const), ms: fc.constantFrom(-86_400_000, -30_000, 30_000) }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('reject' as const), replica: index, owner: index }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('health' as const), health: healths }) },
  ),
  { minLength: 6, maxLength: 30 },
);

type Step = typeof steps extends fc.Arbitrary<(infer T)[]> ? T : never;

class World {
  readonly fleet: ModelFleet;
  readonly problems: string[] = [];
  readonly #issuedAtMs = new Map<string, number>();
  readonly #replicas;
  readonly #messages: unknown[] = [];
  /** By how much Redis's clock was set back: what has ended by then may be served for as long again. */
  #setBackMs = 0;
  calls = 0;
  open = 0;

  constructor() {
    const source = new FleetSource((call) => {
      const token = `${SECRETS.token}-${this.#issuedAtMs.size}-${OWNERS.indexOf(call.accessKey)}`;
      this.#issuedAtMs.set(token, this.fleet.clock.monotonic());
      call.succeed({ token, response: { access_token: token, expires_in: LIFETIME_S } });
    });
    this.fleet = new ModelFleet(source);
    this.#replicas = [this.fleet.replica(), this.fleet.replica()] as const;
    this.fleet.model.listen((...message) => this.#messages.push(message));
  }

  async step(step: Step): Promise<void> {
    const { keys } = this.fleet.model;
    const names = [...keys.keys()];
    const nameAt = (at: number) => names[at % Math.max(1, names.length)] ?? '';
    switch (step.do) {
      case 'call':
        return this.call(step.replica, step.owner);
      case 'pass':
        return this.fleet.pass(step.ms, Math.max(10, step.ms / 20));
      case 'damage':
        return void keys.get(nameAt(step.at))?.set(step.field, step.value);
      case 'swap':
        return this.#swap(step.field);
      case 'delete':
        return void keys.delete(nameAt(step.at));
      case 'message':
        return this.fleet.model.tell('otr:4:wake', `${nameAt(step.at)} ${step.text} x`);
      case 'jump':
        this.#setBackMs += Math.max(0, -step.ms);
        return this.fleet.clock.jumpWall(step.ms);
      case 'health':
        this.fleet.health = step.health;
        return;
      case 'reject': {
        const { registry } = this.#replicas[step.replica as 0 | 1];
        const key = OWNERS[step.owner] as string;
        const token = registry.peek(key);
        if (token) registry.reject(key, token);
      }
    }
  }

  call(replica: number, owner: number): void {
    this.calls++;
    this.open++;
    const settled = () => void this.open--;
    this.#replicas[replica as 0 | 1].registry
      .getToken(OWNERS[owner] as string)
      .then(
        ({ value }) => {
          const ageMs = this.fleet.clock.monotonic() - (this.#issuedAtMs.get(value) ?? Number.NaN);
          if (!value.endsWith(`-${owner}`)) this.problems.push(`owner ${owner} got the token ${value.slice(-6)}`);
          if (!(ageMs < LIFETIME_S * 1_000 + this.#setBackMs)) this.problems.push(`a token of ${ageMs} ms was served`);
        },
        (error: unknown) => mustBeTyped(error, this.fleet.clock.now()),
      )
      .catch((error: Error) => this.problems.push(error.message))
      .finally(settled);
  }

  /** Two owners' records, or one field of them. */
  #swap(field: string): void {
    const { keys } = this.fleet.model;
    const [[nameA, a], [nameB, b]] = [...keys]
      .filter(([name]) => !name.endsWith(':replicas'))
      .concat([
        ['', new Map()],
        ['', new Map()],
      ]) as [[string, Map<string, string>], [string, Map<string, string>]];
    if (nameA === '' || nameB === '') return;
    if (field === 'all') {
      keys.set(nameA, b).set(nameB, a);
      return;
    }
    const [ofA, ofB] = [a.get(field), b.get(field)];
    if (ofB !== undefined) a.set(field, ofB);
    if (ofA !== undefined) b.set(field, ofA);
  }

  finish(): void {
    must(this.open === 0, `${this.open} calls did not settle`);
    must(this.problems.length === 0, this.problems.join('; '));
    const { calls: requests } = this.fleet.source;
    must(requests.length <= 4 * this.calls, `${requests.length} requests for ${this.calls} calls`);
    mustNotLeak(
      'Redis',
      [...this.fleet.model.keys].map(([name, fields]) => [name, ...fields]),
      this.#messages,
    );
  }
}

export const redisRecords = targetOf('Redis records', steps, async (all) => {
  const world = new World();
  for (const step of all) {
    await world.step(step);
    await settle();
  }
  world.fleet.health = 'up';
  for (const owner of [0, 1]) for (const replica of [0, 1]) world.call(replica, owner);
  await world.fleet.pass(MOST_MS, 500);
  world.finish();
});
