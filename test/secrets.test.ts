/** Each carrier that could take a secret out of the process, and how none does. Along every fault: row G of the guarantees. */

import diagnostics from 'node:diagnostics_channel';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type IssuedToken, type Logger, OwnerTokenError, OwnerTokenRegistry, TokenEndpoint } from '../src/index.ts';
import { SHARING_EVENTS } from '../src/redis/diagnostics.ts';
import { LOG_EVENTS } from '../src/reporting/log-events.ts';
import { logField } from '../src/reporting/logger.ts';
import { startSandbox } from '../src/sandbox/index.ts';
import { CHANNELS, leaksIn, SECRETS, writtenDown } from './helpers/canaries.ts';
import { Children } from './helpers/child.ts';
import { jwt } from './helpers/jwt.ts';
import { LOG_FIELDS } from './helpers/log-lines.ts';
import { type Answer, json, LoopbackService, reset, status, token } from './helpers/loopback-service.ts';
import { asTimePasses, ManualClock } from './helpers/manual-clock.ts';
import { FleetSource, ModelFleet, SEALING_KEY } from './helpers/model-fleet.ts';
import { issueAfter, scripted } from './helpers/registries.ts';
import { ScriptedSource } from './helpers/scripted-source.ts';
import { runCommand } from './helpers/terminal.ts';

const { clientSecret, accessKey, otherAccessKey } = SECRETS;
const all = Object.values(SECRETS).join(' ');

/** An error as libraries throw them: with the request, the answer and their messages all over it. */
function chatty(depth = 3): Error {
  const error = new Error(all, depth > 0 ? { cause: chatty(depth - 1) } : {});
  const body = { client_secret: clientSecret, appliance_owner_scope: accessKey };
  return Object.assign(error, {
    name: all,
    code: all,
    config: { data: body, headers: { authorization: SECRETS.token } },
    response: { body },
    [all]: 1,
    errors: [new Error(all)],
    toJSON: () => body,
    [Symbol(all)]: all,
  });
}

it('objects of this library show nothing of what they hold, whatever state they are in', async () => {
  await using service = await LoopbackService.start();
  service.always(token({ access_token: SECRETS.token }));
  const source = new TokenEndpoint({ baseUrl: service.url, clientId: 'the-client', clientSecret });
  const registry = new OwnerTokenRegistry({ source, calls: { allowedOrigins: [service.url] } });
  const seen: unknown[] = [];
  const look = () => seen.push(writtenDown(registry), writtenDown(source), writtenDown(registry.ownerFetch(accessKey)));
  look();
  const waiting = registry.getToken(accessKey);
  look();
  seen.push(writtenDown(waiting));
  await waiting;
  service.next(reset());
  seen.push(writtenDown(await registry.getToken(otherAccessKey).catch((error: unknown) => error)));
  look();
  seen.push(
    writtenDown([
      registry.stats(),
      registry.describe(accessKey),
      registry.fingerprint(accessKey),
      registry.peek(accessKey),
    ]),
  );
  seen.push(writtenDown(await registry.warmUp([accessKey, otherAccessKey, ''])));
  await registry.close();
  look();
  expect(leaksIn(seen.join('\n'))).toEqual([]);
});

/**
 * Replicas whose Redis fails, forges, forgets how to subscribe, and sets its clock back, one that cannot name its client, and one
 * with two registries.
 */
async function everySharingEvent(logger: Logger): Promise<void> {
  const fleet = new ModelFleet(new FleetSource((call) => call.succeed({ token: SECRETS.token })));
  const { clock, model, source } = fleet;
  const fails = () => Promise.reject(chatty());
  let up = true;
  const redis = { ...model.port((answer) => (up ? Promise.resolve(answer()) : fails())), subscribe: fails };
  const { registry, shared } = fleet.replica({ redis, logger });
  const get = (key: string) => asTimePasses(registry.getToken(key), clock);
  await get(accessKey);
  for (const fields of model.keys.values()) fields.set('v', `A${fields.get('v')}`);
  await fleet.replica({ logger }).registry.getToken(accessKey);
  await fleet.replica({ sealingKeys: [SEALING_KEY.map((byte) => byte ^ 0xff)], logger }).registry.getToken(accessKey);
  up = false;
  registry.forget(accessKey);
  await get(otherAccessKey);
  up = true;
  await fleet.pass(10_000);
  clock.jumpWall(-3_600_000);
  await get('another');
  source.identity = fails;
  await fleet.replica({ logger }).registry.getToken(otherAccessKey);
  await new OwnerTokenRegistry({ source: shared }).close();
  await registry.close();
}

/** A gateway's clock; a token that comes again after its end; one of another owner, once; tokens that work, and end early. */
async function oddAnswers(logger: Logger): Promise<void> {
  const clock = new ManualClock();
  const iat = clock.now() / 1_000;
  let answer: Partial<IssuedToken> = { token: jwt({ iat, exp: iat + 600, all }), response: { expires_in: 60 } };
  let mixedUp = 0;
  const source = new ScriptedSource((call) =>
    call.succeed(call.accessKey === accessKey || mixedUp++ === 0 ? answer : { token: SECRETS.token }),
  );
  const registry = new OwnerTokenRegistry({ source, logger, clock });
  answer = { ...answer, serviceTimeMs: clock.now() + 3_600_000 };
  await registry.getToken(accessKey);
  clock.advance(60_000);
  answer = { ...answer, response: { expires_in: 600 } };
  await registry.getToken(accessKey);
  await registry.getToken(otherAccessKey);
  for (let count = 0; count < 5; count++) {
    const held = await registry.getToken(accessKey);
    registry.accept(accessKey, held);
    registry.reject(accessKey, held);
    answer = { token: `${SECRETS.token}-${count}`, response: { expires_in: 600 } };
  }
  await registry.close();
}

/** Tokens that take six seconds, then one. */
async function slowAnswers(logger: Logger): Promise<void> {
  const scene = scripted({ logger });
  await issueAfter(6_000, 6, scene);
  await issueAfter(1_000, 60, scene);
  await scene.registry.close();
}

describe('in logs and channels', () => {
  let children: Children;
  beforeAll(() => {
    children = new Children();
  });
  afterAll(() => children[Symbol.dispose]());

  const FIELDS = LOG_FIELDS.map(logField);

  it('every line of the log has an event and known fields alone, at every level', async () => {
    const lines: [string, Record<string, unknown>, string][] = [];
    const at = (level: string) => (fields: object, message: string) =>
      void lines.push([level, fields as Record<string, unknown>, message]);
    const logger: Logger = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
    const boast = () => {
      throw chatty();
    };
    const expiry = { lifetimeMs: () => undefined, accepted: boast, rejected: boast };
    let failing: unknown;
    const source = new ScriptedSource((call) =>
      // Two owners get the same token in a warm-up.
      failing
        ? call.fail(failing)
        : call.succeed({ token: `${SECRETS.token}${Math.min(source.calls.length, 3)}`, tokenType: 'BearerToken' }),
    );
    const registry = new OwnerTokenRegistry({
      source: { requestToken: source.requestToken.bind(source), close: boast },
      logger,
      expiry,
      maxOwners: 1,
      ownerLabel: (key) => `customer ${key}`,
    });
    for (const key of [accessKey, otherAccessKey]) {
      const held = await registry.getToken(key);
      registry.accept(key, held);
      registry.reject(key, held);
      registry.reject(key, clientSecret);
    }
    await registry.warmUp([accessKey, otherAccessKey]);
    registry.reject(accessKey, await registry.getToken(accessKey));
    await registry.getToken(accessKey); // The same token again.
    registry.forget(accessKey);
    for (failing of [chatty(), new OwnerTokenError('client_refused', 'no', { cause: chatty() })]) {
      await registry.getToken(accessKey).catch(() => {});
      registry.resume();
    }
    failing = undefined;
    await oddAnswers(logger);
    await slowAnswers(logger);
    await registry.close();
    const events = new Set(lines.map(([, fields]) => fields['owner_token.event']));
    expect([...events].sort()).toEqual(Object.keys(LOG_EVENTS).sort());
    expect(lines.flatMap(([, fields]) => Object.keys(fields)).filter((name) => !FIELDS.includes(name))).toEqual([]);
    expect(leaksIn(writtenDown(lines))).toEqual([]);
  });

  it('every line and every message of sharing has known fields alone', async () => {
    const lines: Record<string, unknown>[] = [];
    const messages: unknown[] = [];
    const write = (fields: object) => void lines.push(fields as Record<string, unknown>);
    const listener = (message: unknown) => void messages.push(message);
    diagnostics.subscribe('owner-token-registry:sharing', listener);
    await everySharingEvent({ debug: write, info: write, warn: write, error: write });
    diagnostics.unsubscribe('owner-token-registry:sharing', listener);
    const events = (all: unknown[], of: (one: never) => unknown) => [...new Set((all as never[]).map(of))].sort();
    const expected = Object.keys(SHARING_EVENTS).sort();
    expect(events(lines, (line) => line['owner_token.event'])).toEqual(expected);
    expect(events(messages, ({ event }) => `sharing.${event}`)).toEqual(expected);
    expect(lines.flatMap((line) => Object.keys(line)).filter((name) => !FIELDS.includes(name))).toEqual([]);
    expect(leaksIn(writtenDown([lines, messages]))).toEqual([]);
  });

  it.each(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const)(
    'a logger made here writes no secret to standard output at level %s',
    async (level) => {
      // In a process of its own, since it writes to the file descriptor itself.
      const { out } = await children.run(
        `
        import { OwnerTokenRegistry } from 'owner-token-registry';
        const [accessKey, other, token] = process.argv.slice(2);
        let good = true;
        const source = { requestToken: async (key) => { if (good) return { token }; throw new Error(key + token); } };
        const registry = new OwnerTokenRegistry({ source, logger: '${level}', maxOwners: 1 });
        registry.reject(accessKey, await registry.getToken(accessKey));
        good = false;
        await registry.getToken(accessKey).catch((error) => console.log(error));
        await registry.getToken(other).catch((error) => console.log('%o', error));
        await registry.close();
      `,
        [accessKey, otherAccessKey, SECRETS.token],
      );
      expect(leaksIn(out)).toEqual([]);
      expect(out).toContain('source_failed');
      expect(out.includes('"owner_token.event":"request.sent"')).toBe(level === 'trace' || level === 'debug');
      expect(out.includes('"owner_token.event":"pause.began"')).toBe(!['error', 'fatal', 'silent'].includes(level));
    },
  );

  it('every diagnostics channel carries names, numbers and codes alone', async () => {
    const messages: [string, unknown][] = [];
    const listener = (message: unknown, name: string | symbol) => void messages.push([String(name), message]);
    for (const name of CHANNELS) diagnostics.subscribe(name, listener);
    const source = new ScriptedSource((call) => call.succeed({ token: SECRETS.token }));
    const registry = new OwnerTokenRegistry({ source });
    registry.reject(accessKey, await registry.getToken(accessKey));
    await registry.getToken(accessKey).catch(() => {});
    await registry.getToken(otherAccessKey);
    await registry.getToken(otherAccessKey);
    source.script((call) => call.fail(new OwnerTokenError('rate_limited', 'slow down', { cause: chatty() })));
    await registry.getToken('a third').catch(() => {});
    registry.resume();
    await registry.close();
    for (const name of CHANNELS) diagnostics.unsubscribe(name, listener);
    expect(new Set(messages.map(([name]) => name))).toEqual(new Set(CHANNELS));
    expect(leaksIn(writtenDown(messages))).toEqual([]);
  });
});

describe('the command line', () => {
  const variables = (baseUrl: string, secret: string = clientSecret) => ({
    OTR_BASE_URL: baseUrl,
    OTR_CLIENT_ID: 'the-client',
    OTR_CLIENT_SECRET: secret,
    OTR_ACCESS_KEY: accessKey,
  });

  it.each<[string, Answer]>([
    ['a token', token({ access_token: SECRETS.token })],
    ['a token with a lifetime that is one', token({ access_token: SECRETS.token, expires_in: SECRETS.token })],
    ['the request, as an error', (call) => json(400, { error: call.fields.client_secret, ...call.fields })(call)],
    ['the request, in HTML', (call) => status(500, `<p>${call.body}</p>`)(call)],
    ['a redirect with the secret', (call) => status(302, '', { location: `/${call.fields.client_secret}` })(call)],
    ['nothing', reset()],
  ])('prints no secret when the service answers with %s', async (_, answer) => {
    await using service = await LoopbackService.start();
    service.always(answer);
    for (const flags of [[], ['--json']]) {
      const { out, err } = await runCommand(['token', ...flags], variables(service.url));
      expect(leaksIn(out + err)).toEqual([]);
      expect(out + err).not.toBe('');
    }
  });

  it.each([
    ['--show-token', accessKey],
    [`--client-secret=${clientSecret}`],
    [`--${clientSecret}`],
    [clientSecret],
    ['--json', `--show-token=${clientSecret}`],
  ])('repeats none of its arguments: %s', async (...flags) => {
    const { out, err, code } = await runCommand(['token', ...flags], variables('https://localhost:1'));
    expect(leaksIn(out + err)).toEqual([]);
    expect(code).toBe(2);
  });

  it.each([
    ['a base URL that is the secret', { OTR_BASE_URL: clientSecret }, 2],
    ['a base URL with the secret', { OTR_BASE_URL: `https://${clientSecret}.invalid` }, 1],
    ['an access key with a line break', { OTR_ACCESS_KEY: `${accessKey}\n` }, 1],
  ])('prints no secret for %s', async (_, changed, expected) => {
    await using sandbox = await startSandbox({ owners: 1 });
    const { out, err, code } = await runCommand(['token'], {
      ...variables(sandbox.url, sandbox.clientSecret),
      ...changed,
    });
    expect(leaksIn(out + err)).toEqual([]);
    expect(out + err).not.toContain(sandbox.clientSecret);
    expect(code).toBe(expected);
  });
});
