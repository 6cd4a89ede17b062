/**
 * P5 and P6. What only the registry can see: connections that lead to a host that is gone, answers that are mixed up on the way,
 * and something else that gets tokens for the same owner.
 */

import { describe, expect, it } from 'vitest';
import { OwnerTokenError, type OwnerTokenRegistryOptions, untilRejected } from '../../src/index.ts';
import { asTimePasses, settle } from '../helpers/manual-clock.ts';
import { FleetSource, ModelFleet } from '../helpers/model-fleet.ts';
import { errorOf, keys, scripted } from '../helpers/registries.ts';
import { ScriptedSource } from '../helpers/scripted-source.ts';

const down = () => new OwnerTokenError('endpoint_unavailable', 'down', { status: 503 });

/** A registry that notes its warnings. */
function watched(source = new ScriptedSource(), options: Partial<OwnerTokenRegistryOptions> = {}) {
  const warned: Record<string, unknown>[] = [];
  const warn = (fields: object) => void warned.push(fields as Record<string, unknown>);
  const logger = { debug: () => {}, info: () => {}, warn, error: warn };
  const events = () => warned.map((fields) => fields['owner_token.event']);
  return { ...scripted({ logger, ...options }, source), warned, events };
}

describe('P5', () => {
  it('after two failures in a row an owner is asked for over a new connection, until one succeeds', async () => {
    const { registry, clock, source } = scripted({}, new ScriptedSource((call) => call.fail(down())));
    for (let attempt = 0; attempt < 4; attempt++) {
      await errorOf(registry.getToken('owner'));
      clock.advance((registry.describe('owner').retryAtMs ?? 0) - clock.now());
    }
    source.script((call) => call.succeed({ response: { expires_in: 60 } }));
    await registry.getToken('owner');
    clock.advance(60_000);
    await registry.getToken('owner');
    const fresh = source.calls.map(({ request }) => request.freshConnection ?? false);
    expect(fresh).toEqual([false, false, true, true, true, false]);
  });

  it('the trial of an open circuit goes over a new connection', async () => {
    const { registry, clock, source } = scripted({}, ScriptedSource.answering(3_600));
    const owners = keys(8);
    await registry.getToken('canary');
    source.script((call) => call.fail(down()));
    for (const owner of owners) registry.getToken(owner).catch(() => {});
    await settle(10);
    const { retryAtMs = 0 } = registry.stats().pauses.endpoint ?? {};
    expect(retryAtMs).toBeGreaterThan(clock.now());
    const before = source.calls.length;
    clock.advance(retryAtMs - clock.now());
    await settle();
    expect(source.calls.slice(before).map(({ request }) => request.freshConnection)).toEqual([true]);
  });
});

describe('P6', () => {
  it('an owner gets another’s token: it is requested once more before it is handed out, and warned of', async () => {
    const { registry, source, warned } = watched();
    const first = registry.getToken('a');
    await settle();
    source.call(0).succeed({ token: 'of-a' });
    await first;
    const waiting = registry.getToken('b');
    await settle();
    source.call(1).succeed({ token: 'of-a' });
    await settle();
    source.call(2).succeed({ token: 'of-b' });
    expect((await waiting).value).toBe('of-b');
    expect(registry.stats().failures).toBe(0);
    expect(warned.filter((fields) => fields['owner_token.event'] === 'token.mixed_up')).toMatchObject([
      { 'owner_token.owner': registry.fingerprint('b'), 'owner_token.other_owner': registry.fingerprint('a') },
    ]);
  });

  it.each([
    ['held', 10],
    ['evicted in between', 1],
  ])('an owner whose token, %s, is another’s gets a new one, too', async (_, maxOwners) => {
    const source = new ScriptedSource();
    const { registry } = scripted({ maxOwners }, source);
    const served = async (owner: string, ...answers: readonly string[]) => {
      const waiting = registry.getToken(owner);
      await settle();
      for (const token of answers) {
        source.call(-1).succeed({ token, response: { expires_in: 600 } });
        await settle();
      }
      return (await waiting).value;
    };
    expect(await served('a', 'of-b')).toBe('of-b');
    expect(await served('b', 'of-b', 'new-of-b')).toBe('new-of-b');
    // An evicted owner comes back with the same token, which is no longer taken for its own.
    const answers = maxOwners === 1 ? ['of-b', 'of-a'] : ['of-a'];
    expect(await served('a', ...answers)).toBe('of-a');
    expect(registry.stats().failures).toBe(0);
  });

  it('two keys of one owner get the same token twice: the second one is served, with one warning in all', async () => {
    let issued = 1;
    const { registry, clock, source, events } = watched(
      new ScriptedSource((call) => call.succeed({ token: `token-${issued}`, response: { expires_in: 60 } })),
    );
    for (; issued < 5; issued++) {
      for (const owner of ['a', 'b']) expect((await registry.getToken(owner)).value).toBe(`token-${issued}`);
      clock.advance(60_000);
    }
    expect(source.countFor('a')).toBe(4);
    expect(source.countFor('b')).toBe(8);
    expect(events().filter((event) => event === 'token.shared')).toHaveLength(1);
  });

  it('a service that ignores access keys is asked once more only until three owners have the token', async () => {
    let issued = 1;
    const { registry, clock, source } = watched(
      new ScriptedSource((call) => call.succeed({ token: `token-${issued}`, response: { expires_in: 60 } })),
    );
    for (; issued < 4; issued++) {
      for (const owner of keys(50)) await registry.getToken(owner);
      clock.advance(60_000);
    }
    expect(source.calls.length).toBe(3 * (50 + 2));
  });

  it('a token of an owner that was forgotten, or evicted, is no other owner’s', async () => {
    const { registry, source, events } = watched(new ScriptedSource((call) => call.succeed({ token: 'the-one' })));
    await registry.getToken('a');
    registry.forget('a');
    await registry.getToken('b');
    registry.forgetAll();
    await registry.getToken('c');
    expect(source.calls.length).toBe(3);
    expect(events()).not.toContain('token.shared');
  });

  it('a token of an owner that was evicted and forgotten then is no other owner’s', async () => {
    const source = new ScriptedSource((call) => call.succeed({ token: call.accessKey === 'b' ? 'other' : 'the-one' }));
    const { registry } = scripted({ maxOwners: 1 }, source);
    await registry.getToken('a');
    await registry.getToken('b');
    registry.forget('a');
    await registry.getToken('c');
    expect(source.countFor('c')).toBe(1);
  });

  it('the most recent few hundred tokens are remembered', async () => {
    const tokens = new Map<string, string>();
    const { registry, source } = watched(
      new ScriptedSource((call) => call.succeed({ token: tokens.get(call.accessKey) ?? `of-${call.accessKey}` })),
    );
    for (const owner of keys(300)) await registry.getToken(owner);
    tokens.set('late', 'of-key-1').set('later', 'of-key-299');
    await registry.getToken('late');
    expect(source.countFor('late')).toBe(1);
    await registry.getToken('later');
    expect(source.countFor('later')).toBe(2);
  });

  describe('in a fleet', () => {
    /** What each owner is answered in turn; its own tokens after that. */
    function mixingUp(answers: Record<string, readonly string[]>) {
      const [source, given] = [new FleetSource(), new Map<string, number>()];
      source.script((call) => {
        const nth = given.get(call.accessKey) ?? 0;
        given.set(call.accessKey, nth + 1);
        call.succeed({
          token: answers[call.accessKey]?.[nth] ?? `of-${call.accessKey}`,
          response: { expires_in: 3600 },
        });
      });
      const fleet = new ModelFleet(source);
      return { fleet, source, first: fleet.replica().registry, second: fleet.replica().registry };
    }

    it('the token of another owner is neither handed out nor stored, nor given to a replica that waits', async () => {
      const { fleet, source, second } = mixingUp({ b: ['of-a'] });
      // Reads slowly, so that the replica that waits would see what it stores before it can drop that.
      const port = fleet.model.port();
      const run: typeof port.run = async (script, ...rest) => {
        if (script.name === 'acquire') await new Promise<void>((resolve) => fleet.clock.setTimeout(resolve, 20));
        return port.run(script, ...rest);
      };
      const first = fleet.replica({ redis: { ...port, run } }).registry;
      await asTimePasses(first.getToken('a'), fleet.clock);
      const leading = first.getToken('b');
      await fleet.pass(20, 10);
      const calls = [leading, second.getToken('b')];
      await fleet.pass(500, 10);
      expect((await Promise.all(calls)).map(({ value }) => value)).toEqual(['of-b', 'of-b']);
      expect((await fleet.replica().registry.getToken('b')).value).toBe('of-b');
      expect(source.countFor('b')).toBe(2);
    });

    it('the token of another owner is not handed out if both answers arrive in the same turn', async () => {
      const { fleet, source, first } = mixingUp({});
      source.script(undefined);
      const calls = [first.getToken('a'), first.getToken('b')];
      await settle();
      source.call(0).succeed({ token: 'of-a' });
      source.call(1).succeed({ token: 'of-a' });
      await settle();
      source.call(2).succeed({ token: 'of-b' });
      await fleet.pass(500, 10);
      expect((await Promise.all(calls)).map(({ value }) => value)).toEqual(['of-a', 'of-b']);
      expect((await fleet.replica().registry.getToken('b')).value).toBe('of-b');
    });

    it('a replica that knows the owner of a shared token asks for another one, which every replica gets', async () => {
      const { fleet, source, first, second } = mixingUp({ b: ['of-a'] });
      expect((await second.getToken('b')).value).toBe('of-a');
      await first.getToken('a');
      expect((await first.getToken('b')).value).toBe('of-b');
      await fleet.pass(500, 10);
      expect((await second.getToken('b')).value).toBe('of-b');
      expect(source.countFor('b')).toBe(2);
    });

    it('two keys of one owner cost one request more in each replica', async () => {
      const { fleet, source, first, second } = mixingUp({ b: Array(20).fill('of-a') });
      for (let round = 0; round < 5; round++) {
        for (const registry of [first, second]) {
          for (const owner of ['a', 'b']) expect((await registry.getToken(owner)).value).toBe('of-a');
          await fleet.pass(500, 10);
        }
      }
      expect(source.countFor('a')).toBe(1);
      expect(source.countFor('b')).toBeLessThanOrEqual(4);
    });
  });

  it('three working tokens in a row are rejected early: it warns once that something else gets tokens', async () => {
    const { registry, clock, warned } = watched(ScriptedSource.answering(3_600));
    for (let token = 0; token < 40; token++) {
      const held = await registry.getToken('owner');
      registry.accept('owner', held);
      clock.advance(5_000);
      registry.reject('owner', held);
    }
    const contended = warned.filter((fields) => fields['owner_token.event'] === 'token.contended');
    expect(contended).toHaveLength(1);
    expect(contended[0]).toMatchObject({ 'owner_token.owner': registry.fingerprint('owner') });
  });

  it('tokens without an end that are rejected are not warned of', async () => {
    const { registry, clock, events } = watched(ScriptedSource.answering(), { expiry: untilRejected() });
    for (let token = 0; token < 12; token++) {
      const held = await registry.getToken('owner');
      registry.accept('owner', held);
      clock.advance(3_600_000);
      registry.reject('owner', held);
    }
    expect(events()).not.toContain('token.contended');
  });

  it('tokens that last half their life, or do not follow one another, are not warned of', async () => {
    for (const heldForMs of [1_900_000, 5_000]) {
      const { registry, clock, events } = watched(ScriptedSource.answering(3_600));
      for (let token = 0; token < 12; token++) {
        const held = await registry.getToken('owner');
        registry.accept('owner', held);
        clock.advance(heldForMs);
        // Each third one of the second run ends by itself.
        if (heldForMs < 60_000 && token % 3 === 2) clock.advance(3_600_000);
        else registry.reject('owner', held);
      }
      expect(events()).not.toContain('token.contended');
    }
  });
});
