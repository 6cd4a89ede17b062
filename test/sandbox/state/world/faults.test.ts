import http from 'node:http';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FaultRule, type Sandbox, startSandbox } from '../../../../src/sandbox/index.ts';
import { settle } from '../../../helpers/manual-clock.ts';
import { askToken, echo, raw, rawTokenRequest, tokenFor } from '../../client.ts';

let sandbox: Sandbox;

beforeEach(async () => {
  sandbox = await startSandbox({ owners: 3, lifetimeSeconds: 600, seed: 1 });
  sandbox.clock.freeze();
});

afterEach(() => sandbox.close());

const rawToken = () => raw(sandbox.url, rawTokenRequest(sandbox));
const masked = (text: string) => text.replace(/sbx_[\w-]+/, '<token>');
const bodyOf = (text: string) => text.slice(text.indexOf('\r\n\r\n') + 4);

/** Waits, without time passing on the sandbox's clock, until something holds. */
async function until(holds: () => boolean): Promise<void> {
  for (let round = 0; !holds(); round++) {
    if (round > 5000) throw new Error('it never came to be');
    await settle();
  }
}

describe('a fault', () => {
  const cases: [FaultRule, outcome: string, expected: object][] = [
    [{ kind: 'status', status: 503 }, 'server_error', { text: expect.stringMatching(/^HTTP\/1.1 503 /), end: 'fin' }],
    [{ kind: 'refuse', target: { path: 'token' } }, 'socket_fault', { text: '', end: 'reset' }],
    [{ kind: 'reset', at: 'before_headers' }, 'socket_fault', { text: '', end: 'reset' }],
    [
      { kind: 'reset', at: 'in_body' },
      'socket_fault',
      { text: expect.stringMatching(/\r\n\r\n\{"access/), end: 'reset' },
    ],
    [{ kind: 'truncate' }, 'socket_fault', { text: expect.stringMatching(/\r\n\r\n\{"access[^}]*$/), end: 'fin' }],
    [{ kind: 'truncate', keepBytes: 0 }, 'socket_fault', { text: expect.stringMatching(/\r\n\r\n$/), end: 'fin' }],
    [{ kind: 'garbage' }, 'socket_fault', { text: expect.not.stringMatching(/HTTP/), end: 'fin' }],
    [
      { kind: 'redirect' },
      'bad_answer',
      { text: expect.stringMatching(/^HTTP\/1.1 307 [\s\S]*location: \/auth\/v2/), end: 'fin' },
    ],
    [{ kind: 'oversized_headers' }, 'bad_answer', { text: expect.stringMatching(/^[\s\S]{100000}/), end: 'fin' }],
    [
      { kind: 'oversized_body' },
      'bad_answer',
      { text: expect.stringMatching(/content-length: 10000\d\d\d/), end: 'fin' },
    ],
    [{ kind: 'wrong_gzip' }, 'bad_answer', { text: expect.stringMatching(/content-encoding: gzip/), end: 'fin' }],
    [{ kind: 'wrong_owner_token' }, 'wrong_owner', { text: expect.stringMatching(/^HTTP\/1.1 200 /), end: 'fin' }],
  ];

  it.each(cases)('strikes until it is removed: %j', async (rule, outcome, expected) => {
    const before = await rawToken();
    const id = sandbox.faults.add(rule);
    expect(await rawToken()).toEqual(expected);
    await settle();
    expect(sandbox.ledger.entries().at(-1)).toMatchObject({ outcome, fault: id, faultKind: rule.kind });
    expect(sandbox.faults.list()).toMatchObject([{ id, hits: 1 }]);
    sandbox.faults.remove(id);
    const after = await rawToken();
    expect(masked(after.text)).toBe(masked(before.text));
    expect(after.end).toBe(before.end);
    expect(sandbox.faults.list()).toEqual([]);
    expect(sandbox.ledger.entries().at(-1)).not.toHaveProperty('fault');
  });

  it('of kind status answers with a body, headers and Retry-After of its own', async () => {
    const body = { error: 'temporarily_unavailable' };
    sandbox.faults.add({ kind: 'status', status: 429, body, retryAfter: 17, headers: { 'X-Reason': 'test' } });
    const reply = await askToken(sandbox);
    expect(reply).toMatchObject({ status: 429, json: body, headers: { 'retry-after': '17', 'x-reason': 'test' } });
    sandbox.faults.clear();
    sandbox.faults.add({ kind: 'status', status: 400, body: 'plain', retryAfter: 'Fri, 01 Jan 2100 00:00:00 GMT' });
    expect(await askToken(sandbox)).toMatchObject({
      text: 'plain',
      headers: { 'retry-after': expect.stringMatching(/2100/) },
    });
    sandbox.faults.clear();
    sandbox.faults.add({ kind: 'status', status: 204 });
    expect(await askToken(sandbox)).toMatchObject({ status: 204, text: '' });
  });

  it('of kind latency or stall ends when its time has come, by the clock of the sandbox', async () => {
    const rules: FaultRule[] = [
      { kind: 'latency', ms: 5000 },
      { kind: 'stall', at: 'before_headers', ms: 5000 },
      { kind: 'stall', at: 'after_headers', ms: 5000 },
    ];
    for (const rule of rules) {
      const id = sandbox.faults.add(rule);
      let reply: number | undefined;
      const asked = askToken(sandbox).then(({ status }) => {
        reply = status;
      });
      await until(() => sandbox.ledger.count({ outcome: 'pending' }) === 1);
      sandbox.clock.advance(4999);
      await settle();
      expect(reply).toBeUndefined();
      sandbox.clock.advance(1);
      await asked;
      expect(reply).toBe(200);
      expect(sandbox.ledger.entries().at(-1)).toMatchObject({ outcome: 'issued', durationMs: 5000, fault: id });
      sandbox.faults.remove(id);
    }
  });

  it('of kind drip gives the body in small pieces', async () => {
    sandbox.faults.add({ kind: 'drip', bytes: 50, everyMs: 1000 });
    const asked = askToken(sandbox);
    await until(() => sandbox.ledger.count({ outcome: 'pending' }) === 1);
    const startedMs = sandbox.clock.monotonic();
    let reply: { status: number } | undefined;
    void asked.then((got) => {
      reply = got;
    });
    while (!reply) {
      sandbox.clock.advance(1000);
      await settle();
    }
    expect((await asked).json).toHaveProperty('access_token');
    expect(sandbox.clock.monotonic() - startedMs).toBeGreaterThanOrEqual(2000);
  });

  it.each<FaultRule>([
    { kind: 'silence' },
    { kind: 'stall', at: 'before_headers' },
    { kind: 'stall', at: 'after_headers' },
  ])('lasts until the caller gives up, whatever the time: %j', async (rule) => {
    sandbox.faults.add(rule);
    const agent = new http.Agent();
    const asked = askToken(sandbox, undefined, {}, agent).then(
      () => 'answered',
      () => 'gave up',
    );
    await until(() => sandbox.ledger.count({ outcome: 'socket_fault' }) === 1);
    sandbox.clock.advance(86_400_000);
    await settle();
    agent.destroy();
    expect(await asked).toBe('gave up');
    await until(() => sandbox.ledger.entries().at(-1)?.durationMs !== undefined);
    expect(sandbox.ledger.entries().at(-1)).toMatchObject({ outcome: 'socket_fault', durationMs: 86_400_000 });
  });

  it.each(['plain', 'cut', 'corrupt'] as const)(
    'of kind wrong_gzip (%s) gives an answer that cannot be unpacked',
    async (how) => {
      sandbox.faults.add({ kind: 'wrong_gzip', how });
      const { text } = await rawToken();
      expect(() => gunzipSync(Buffer.from(bodyOf(text), 'latin1'))).toThrow();
    },
  );

  it('of kind refuse, aimed at everything, closes the port and all connections', async () => {
    const agent = new http.Agent({ keepAlive: true });
    await askToken(sandbox, undefined, {}, agent);
    const id = sandbox.faults.add({ kind: 'refuse' });
    expect((await rawToken()).end).toBe('refused');
    await expect(askToken(sandbox, undefined, {}, agent)).rejects.toThrow();
    sandbox.faults.remove(id);
    expect((await askToken(sandbox)).status).toBe(200);
    agent.destroy();
  });

  it("that gives out another owner's token gives one that works for that owner, and harms nobody's own", async () => {
    const [first, second] = sandbox.owners;
    const own = await tokenFor(sandbox, second?.accessKey);
    sandbox.faults.add({ kind: 'wrong_owner_token', when: { next: 1 } });
    const wrong = await tokenFor(sandbox, first?.accessKey);
    expect((await echo(sandbox, wrong, { 'x-expected-owner': first?.id })).json).toEqual({
      owner: second?.id,
      wrongOwner: true,
    });
    expect((await echo(sandbox, own)).status).toBe(200);
    expect(sandbox.ledger.wasted).toBe(0);
  });

  it('that loses a token on the way does not make the next request a waste', async () => {
    sandbox.faults.add({ kind: 'truncate', when: { next: 1 } });
    await rawToken();
    await tokenFor(sandbox);
    expect(sandbox.ledger.wasted).toBe(0);
  });
});

describe('a fault strikes', () => {
  const statuses = async (count: number) => {
    const all: number[] = [];
    for (let n = 0; n < count; n++) all.push((await askToken(sandbox)).status);
    return all;
  };

  it('for a number of requests', async () => {
    const id = sandbox.faults.add({ kind: 'status', status: 500, when: { next: 2 } });
    expect(sandbox.faults.list()).toMatchObject([{ id, left: { requests: 2 } }]);
    expect(await statuses(3)).toEqual([500, 500, 200]);
    expect(sandbox.faults.list()).toMatchObject([{ id, hits: 2, left: { requests: 0 } }]);
  });

  it('over a rate, with Retry-After until the window ends', async () => {
    sandbox.faults.add({ kind: 'status', status: 429, when: { over: 2, perMs: 10_000 } });
    expect(await statuses(3)).toEqual([200, 200, 429]);
    sandbox.clock.advance(4000);
    const limited = await askToken(sandbox);
    expect([limited.status, limited.headers['retry-after']]).toEqual([429, '6']);
    sandbox.clock.advance(5500);
    expect((await askToken(sandbox)).headers['retry-after'], 'never less than is left').toBe('1');
    sandbox.clock.advance(500);
    expect(await statuses(3)).toEqual([200, 200, 429]);
  });

  it('by a schedule, once or again and again', async () => {
    sandbox.faults.add({ kind: 'status', status: 500, when: { schedule: [[1000, 2000]] } });
    sandbox.faults.add({ kind: 'status', status: 502, when: { schedule: [[3000, 4000]], everyMs: 5000 } });
    const seen: number[] = [];
    for (let second = 0; second < 14; second++) {
      seen.push(...(await statuses(1)));
      sandbox.clock.advance(1000);
    }
    expect(seen).toEqual([200, 500, 200, 502, 200, 200, 200, 200, 502, 200, 200, 200, 200, 502]);
    expect(sandbox.faults.list().map((fault) => fault.left)).toEqual([{ ms: 0 }, undefined]);
  });

  it('by a schedule that opens a closed port again in time', async () => {
    sandbox.faults.add({ kind: 'refuse', when: { schedule: [[1000, 31_000]] } });
    expect((await askToken(sandbox)).status).toBe(200);
    sandbox.clock.advance(1000);
    expect((await rawToken()).end).toBe('refused');
    sandbox.clock.advance(29_999);
    expect((await rawToken()).end).toBe('refused');
    sandbox.clock.advance(1);
    expect((await askToken(sandbox)).status).toBe(200);
  });

  it('by probability, the same each time with the same seed', async () => {
    const pattern = async (seed: number) => {
      const id = sandbox.faults.add({ kind: 'status', status: 500, when: { probability: 0.5, seed } });
      const seen = await statuses(24);
      sandbox.faults.remove(id);
      return seen.join();
    };
    const first = await pattern(1);
    expect(await pattern(1)).toBe(first);
    expect(await pattern(2)).not.toBe(first);
    expect(first).toContain('200');
    expect(first).toContain('500');
  });

  it('for one owner, or one path', async () => {
    const [first, second] = sandbox.owners;
    sandbox.faults.add({ kind: 'status', status: 500, target: { owner: first?.id ?? '' } });
    expect((await askToken(sandbox, first?.accessKey)).status).toBe(500);
    expect((await askToken(sandbox, second?.accessKey)).status).toBe(200);
    sandbox.faults.clear();
    const token = await tokenFor(sandbox);
    sandbox.faults.add({ kind: 'status', status: 401, target: { path: 'echo' } });
    expect((await echo(sandbox, token)).status).toBe(401);
    expect((await askToken(sandbox)).status).toBe(200);
  });

  it('for a share of the owners, always the same ones, and none for an unknown key', async () => {
    sandbox.seed(10);
    const struck = async (share: number) => {
      const id = sandbox.faults.add({ kind: 'status', status: 503, target: { share } });
      const replies = await Promise.all([...sandbox.accessKeys, 'unknown'].map((key) => askToken(sandbox, key)));
      sandbox.faults.remove(id);
      return replies.map(({ status }) => (status === 503 ? 'x' : '-')).join('');
    };
    for (let round = 0; round < 2; round++) expect(await struck(0.2)).toBe('----x----x-');
    expect(await struck(0.5)).toBe('-x-x-x-x-x-');
    expect([await struck(0), await struck(1)]).toEqual(['-----------', 'xxxxxxxxxx-']);
    sandbox.faults.add({ kind: 'refuse', target: { share: 0.2 } });
    expect((await askToken(sandbox)).status).toBe(200);
    await expect(askToken(sandbox, sandbox.accessKeys[4])).rejects.toThrow('ECONNRESET');
  });

  it('if it is the oldest of several, after the delays before it', async () => {
    sandbox.faults.add({ kind: 'latency', ms: 1000 });
    sandbox.faults.add({ kind: 'status', status: 500 });
    sandbox.faults.add({ kind: 'status', status: 502 });
    const asked = askToken(sandbox);
    await until(() => sandbox.ledger.count({ outcome: 'pending' }) === 1);
    sandbox.clock.advance(1000);
    expect((await asked).status).toBe(500);
    expect(sandbox.faults.list().map((fault) => fault.hits)).toEqual([1, 1, 0]);
  });
});

describe('a fault rule', () => {
  it.each([
    [{ kind: 'latencyy', ms: 1 }, /did you mean latency/],
    [{ kind: 'status', status: 503, nxt: 3 }, /nxt: unknown option/],
    [{ kind: 'status', status: 503, when: { nextt: 3 } }, /when\.nextt: unknown option; expected one of next/],
    [{ kind: 'status', status: 503, target: { onwer: 'x' } }, /target\.onwer: unknown option; expected one of .*owner/],
    [{ kind: 'silence', target: { share: 1.5 } }, /target\.share: expected a number from 0 to 1/],
    [{ kind: 'status' }, /status: required: an integer/],
    [{ kind: 'status', status: 100 }, /status: expected an integer/],
    [{ kind: 'silence', status: 500 }, /status: unknown option/],
    [{ kind: 'silence', when: { next: 1, always: true } }, /exactly one of/],
    [{ kind: 'silence', when: {} }, /exactly one of/],
    [{ kind: 'silence', when: { over: 3 } }, /perMs/],
    [{ kind: 'silence', when: { next: 0 } }, /next/],
    [{ kind: 'silence', when: { schedule: [[5, 1]] } }, /schedule/],
    [{ kind: 'silence', when: { schedule: [[1, 5]], everyMs: 4 } }, /everyMs/],
    [{ kind: 'silence', when: { probability: 1.5 } }, /probability/],
    [{ kind: 'status', status: 500, headers: { 'bad name': 'x' } }, /headers/],
    [{ kind: 'status', status: 500, headers: { trailer: 'x' } }, /headers: expected no trailer: the sandbox frames/],
    [{ kind: 'status', status: 500, headers: { 'Transfer-ENCODING': 'x' } }, /expected no transfer-encoding/],
    [{ kind: 'status', status: 500, headers: { 'content-length': '1' } }, /expected no content-length/],
    [{ kind: 'status', status: 500, headers: { Connection: 'close' } }, /expected no connection/],
    [{ kind: 'redirect', location: 'x\r\ny' }, /location/],
    [{ kind: 'wrong_owner_token', target: { path: 'echo' } }, /target\.path/],
    [{ kind: 'silence', id: 'no spaces' }, /id/],
    [null, /expected an object/],
    ['text', /expected an object/],
  ])('is refused: %j', (rule, message) => {
    expect(() => sandbox.faults.add(rule as FaultRule)).toThrow(message);
    expect(sandbox.faults.list()).toEqual([]);
  });

  it('whose body JSON cannot represent is refused', () => {
    const message = /body: expected a string, or a value that JSON can represent/;
    for (const body of [1n, () => 'text', Symbol('text')]) {
      expect(() => sandbox.faults.add({ kind: 'status', status: 500, body })).toThrow(message);
    }
  });

  it('with an id that is taken is refused', () => {
    sandbox.faults.add({ kind: 'silence', id: 'mine' });
    expect(() => sandbox.faults.add({ kind: 'silence', id: 'mine' })).toThrow('mine exists already');
  });

  it('that is aimed at nobody is refused, and an access key in place of an id is not repeated', () => {
    const owner = sandbox.accessKeys[0] ?? '';
    expect(() => sandbox.faults.add({ kind: 'silence', target: { owner } })).toThrow(
      /^target.owner: no owner has this id$/,
    );
    expect(sandbox.faults.list()).toEqual([]);
  });

  it('that is changed after it was added changes nothing', async () => {
    const when = { next: 5 };
    sandbox.faults.add({ kind: 'status', status: 500, when });
    when.next = 0;
    const [listed] = sandbox.faults.list();
    if (listed && 'next' in listed.when) listed.when.next = 0;
    expect((await askToken(sandbox)).status).toBe(500);
  });
});
