import { inspect } from 'node:util';
import { serialize } from 'node:v8';
import { describe, expect, it, vi } from 'vitest';
import { AccessToken } from '../src/token.ts';
import { type IssuedToken, readIssued } from '../src/token-source.ts';
import { parseTokenResponse } from '../src/token-type.ts';

const fields = {
  value: 'canary-7c1d',
  tokenType: 'Bearer',
  fingerprint: 'token_abc',
  issuedAtMs: 1,
  refreshAtMs: 2,
  expiresAtMs: 3,
};

describe('an access token', () => {
  const token = new AccessToken(fields);

  it('carries what the answer said besides, and prints nothing of it', () => {
    const response = { instance_url: 'https://canary.example' };
    const carrying = new AccessToken({ ...fields, response });
    expect(carrying.response).toBe(response);
    expect({ ...token.response }).toEqual({});
    for (const customInspect of [true, false]) {
      expect(inspect(carrying, { showHidden: true, getters: true, customInspect, depth: 9 })).not.toContain('canary');
    }
    expect(JSON.stringify({ ...carrying, carrying })).not.toContain('canary');
  });

  it('cannot be cloned, alone or inside another object: that throws', () => {
    const { port1, port2 } = new MessageChannel();
    for (const clone of [structuredClone, serialize, (value: unknown) => port1.postMessage(value)]) {
      expect(() => clone({ session: { token } })).toThrow(/could not be cloned/);
    }
    port1.close();
    port2.close();
  });

  it('gives its secret by two names and no other way', () => {
    expect([token.value, token.authorization]).toEqual(['canary-7c1d', 'Bearer canary-7c1d']);
    const shown = { tokenType: 'Bearer', fingerprint: 'token_abc', issuedAtMs: 1, refreshAtMs: 2, expiresAtMs: 3 };
    expect({ ...token }).toEqual({ ...shown, toString: expect.any(Function) });
    expect(JSON.parse(JSON.stringify(token))).toEqual(shown);
    expect(`${token}`).toBe('AccessToken(token_abc)');
  });

  it('is inspected with the options of the caller', () => {
    const shown = inspect({ token }, { compact: true, breakLength: Number.POSITIVE_INFINITY });
    expect(shown).toContain("token: AccessToken { tokenType: 'Bearer', issuedAtMs: 1,");
    expect(shown).toContain("fingerprint: 'token_abc'");
    expect(inspect(token, { colors: true })).toContain('\x1b[');
    expect(inspect(token, { colors: false })).not.toContain('\x1b[');
  });

  it('is shown without its secret even where hidden properties and getters are asked for', () => {
    for (const customInspect of [true, false]) {
      const shown = inspect({ token }, { showHidden: true, getters: true, customInspect, depth: 9 });
      expect(shown).toMatch(/fingerprint: (\[Getter: )?'token_abc'/);
      expect(shown).not.toContain('canary');
    }
  });

  it('is one of its own class, and of a subclass only if made so', () => {
    class Special extends AccessToken {}
    expect([token instanceof AccessToken, new Special(fields) instanceof AccessToken]).toEqual([true, true]);
    expect([token instanceof Special, new Special(fields) instanceof Special]).toEqual([false, true]);
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    for (const other of [{}, null, 'token', fields, proxy]) {
      expect((other as object) instanceof AccessToken).toBe(false);
    }
  });

  it('has its fingerprint computed when that is first read, at most once', () => {
    const ofToken = vi.fn((value: string) => `token_of_${value}`);
    const unread = new AccessToken({ ...fields, fingerprint: { ofToken } });
    expect(unread.value).toBe('canary-7c1d');
    expect(ofToken).not.toHaveBeenCalled();
    expect([unread.fingerprint, { ...unread }.fingerprint]).toEqual(['token_of_canary-7c1d', 'token_of_canary-7c1d']);
    expect(ofToken).toHaveBeenCalledTimes(1);
  });
});

describe('the token response', () => {
  it.each([
    [{ access_token: 'abc' }, { token: 'abc' }],
    [
      { access_token: 'abc', token_type: 'bearer', expires_in: 5 },
      { token: 'abc', tokenType: 'bearer' },
    ],
    [{ access_token: 'abc', token_type: '' }, { token: 'abc' }],
    [{ access_token: 'abc', token_type: 7 }, { token: 'abc' }],
    [{ access_token: '' }, { token: '' }],
  ])('%j is read as %j', (body, issued) => {
    expect(parseTokenResponse(body)).toEqual(issued);
  });
});

describe('an issued token', () => {
  it.each([
    { token: 'a' },
    { token: `!${'~'.repeat(65_535)}` },
    { token: 'a', tokenType: 'Bearer' },
    { token: 'a', tokenType: 'Bearer ' },
    { token: 'a', requestedAtMs: 0 },
    { token: 'a', requestedAtMs: -1.5 },
    { token: 'a', serviceTimeMs: 1_893_456_000_000 },
  ])('is good: %#', (issued) => {
    expect(readIssued(issued)).toEqual(issued);
  });

  const LINE_BREAK = 'the token has characters that are not allowed in a header';
  it('whose service time is NaN is one without', () => {
    expect(readIssued({ token: 'a', serviceTimeMs: Date.parse('') })).toEqual({ token: 'a' });
  });

  it.each(['a', ' a', 'a\n', '\r\n\t a \t\r\n', `${' '.repeat(65_536)}a`])('is trimmed as by Headers: %#', (token) => {
    const headers = new Headers({ authorization: token });
    expect(readIssued({ token })).toEqual({ token: headers.get('authorization') });
  });

  it('is trimmed in time in proportion to its length', () => {
    expect(readIssued({ token: `a${' '.repeat(1_000_000)}b` })).toHaveProperty('problem');
  });

  const NO_NUMBER = 'requestedAtMs is not a finite number';
  const NO_TIME = 'serviceTimeMs is not a finite number';
  it.each([
    [undefined, 'it is not an object'],
    [null, 'it is not an object'],
    ['token', 'it is not an object'],
    [{}, 'the token is not a string'],
    [{ token: 7 }, 'the token is not a string'],
    [{ token: '' }, 'the token is empty'],
    [{ token: ' \r\n\t' }, 'the token is empty'],
    [{ token: 'x'.repeat(65_537) }, 'the token is longer than 65536 characters'],
    [{ token: 'a b' }, LINE_BREAK],
    [{ token: ' a\n b' }, LINE_BREAK],
    [{ token: '\ufeffa' }, LINE_BREAK],
    [{ token: 'a\u00a0' }, LINE_BREAK],
    [{ token: 'a\f' }, LINE_BREAK],
    [{ token: 'a\r\nSet-Cookie: x' }, LINE_BREAK],
    [{ token: 'a\x7f' }, LINE_BREAK],
    [{ token: 'ä' }, LINE_BREAK],
    [{ token: 'a', tokenType: null }, 'the token type is not a string'],
    [{ token: 'a', requestedAtMs: Number.NaN }, NO_NUMBER],
    [{ token: 'a', requestedAtMs: Number.POSITIVE_INFINITY }, NO_NUMBER],
    [{ token: 'a', requestedAtMs: '5' }, NO_NUMBER],
    [{ token: 'a', serviceTimeMs: Number.POSITIVE_INFINITY }, NO_TIME],
    [{ token: 'a', serviceTimeMs: 'Tue, 01 Jan 2030 00:02:00 GMT' }, NO_TIME],
    [{ token: 'a', serviceTimeMs: null }, NO_TIME],
  ])('is refused in words that do not quote it: %#', (issued, problem) => {
    expect(readIssued(issued)).toEqual({ problem });
  });
});

it('what a source returns may be an instance with accessors', () => {
  class Answer {
    get token() {
      return 'abc';
    }
    get tokenType() {
      return 'DPoP';
    }
    get requestedAtMs() {
      return 5;
    }
    get response() {
      return { a: 1 };
    }
  }
  expect(readIssued(new Answer())).toEqual({
    token: 'abc',
    tokenType: 'DPoP',
    requestedAtMs: 5,
    response: { a: 1 },
  });
});

it('what a source returns is read once, so that only what was checked is used', () => {
  const reads: string[] = [];
  const changing = new Proxy({} as IssuedToken, {
    get: (_, name) => {
      reads.push(String(name));
      return name === 'token' ? (reads.length === 1 ? 'good' : 'bad\r\nX-Evil: 1') : undefined;
    },
  });
  expect(readIssued(changing)).toEqual({ token: 'good' });
  expect(reads).toEqual([...new Set(reads)]);
});
