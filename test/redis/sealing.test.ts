import { randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Names, namingKeyFrom, Sealer, sealContext } from '../../src/redis/sealing.ts';

const OLD = new Uint8Array(32).fill(1);
const NEW = new Uint8Array(32).fill(2);
const TOKEN = {
  token: 'canary-token',
  tokenType: 'Bearer',
  response: { access_token: 'canary-token', expires_in: 3600, data: { seconds: '3600' } },
  requestedAtUs: 1_900_000_000_000_001,
  lifetimeMs: 3_600_000,
};
const HERE = sealContext('token', 'name', 42);
const sealed = (sealer: Sealer, token: object = TOKEN) => sealer.seal(token, HERE) ?? '';

describe('a sealed token', () => {
  it('opens as the token that was sealed', () => {
    const sealer = new Sealer([OLD]);
    expect(sealer.open(sealed(sealer), HERE)).toEqual(TOKEN);
    const bare = { token: 'x', requestedAtUs: 1, lifetimeMs: null };
    expect(sealer.open(sealed(sealer, bare), HERE)).toEqual(bare);
  });

  it('reveals nothing of the token, and is never the same twice', () => {
    const sealer = new Sealer([OLD]);
    expect(Buffer.from(sealed(sealer), 'base64url').toString('latin1')).not.toContain('canary');
    expect(sealed(sealer)).not.toBe(sealed(sealer));
    expect(inspect(sealer, { showHidden: true, depth: 9 })).not.toContain('01 01 01');
  });

  it('L3: opens only in its own record and generation', () => {
    const sealer = new Sealer([OLD]);
    const value = sealed(sealer);
    expect(sealer.open(value, sealContext('token', 'another name', 42))).toBeUndefined();
    expect(sealer.open(value, sealContext('token', 'name', 43))).toBeUndefined();
    expect(sealer.open(value, sealContext('failure', 'name', 42))).toBeUndefined();
    expect(new Sealer([NEW]).open(value, HERE)).toBeUndefined();
  });

  it('L3: is a miss with any bit changed, any part cut or any noise added', () => {
    const sealer = new Sealer([OLD, NEW]);
    const value = sealed(sealer);
    const bytes = Buffer.from(value, 'base64url');
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(sealer.open(changed.toString('base64url'), HERE)).toBeUndefined();
    }
    for (let length = 0; length < bytes.length; length++) {
      expect(sealer.open(bytes.subarray(0, length).toString('base64url'), HERE)).toBeUndefined();
    }
    for (let round = 0; round < 2000; round++) {
      const noise = randomBytes(round % 200);
      expect(sealer.open(noise.toString('base64url'), HERE)).toBeUndefined();
      expect(sealer.open(noise.toString('latin1'), HERE)).toBeUndefined();
      const headed = Buffer.concat([bytes.subarray(0, 5), noise]);
      expect(sealer.open(headed.toString('base64url'), HERE)).toBeUndefined();
    }
    expect(sealer.open('A'.repeat(10_000_000), HERE)).toBeUndefined();
  });
});

it('a value of up to 128 KiB is sealed, and a larger one is not', () => {
  const json = { token: 'x'.repeat(131_072 - JSON.stringify({ token: '' }).length) };
  expect(new Sealer([OLD]).seal(json, HERE)).toBeDefined();
  expect(new Sealer([OLD]).seal({ token: `${json.token}x` }, HERE)).toBeUndefined();
});

it('names and sealed values stay the same: changing them needs a new FORMAT_VERSION', () => {
  const names = new Names('otr', OLD);
  const { channel, replicas, keyId } = names;
  expect({ channel, replicas, keyId }).toEqual({
    channel: 'otr:4:wake',
    replicas: 'otr:4:replicas',
    keyId: 'Jfsz6Hu3GaMQ',
  });
  const name = names.ofOwner('identity', 'ACCESS-KEY');
  expect(name).toBe('otr:4:uxWVpTf7KP0lXQxDDCp80A8by3-WUE_cJq-cQKaiHIc');
  expect(names.proofOf('rejected', name, 42)).toBe('TfhuqiqtgxVsd5Y7bwHeXz');
  expect(names.proofOf('present', 'web-1', 1, 2)).toBe('AZTUKRYv6qx6A8eUlDvh39');
  const namingKey = Buffer.from(namingKeyFrom(OLD)).toString('base64url');
  expect(namingKey).toBe('kRsGts2oXlrTYkeGZlwhuvNvP5VlgC85RxVE0RZmbsk');
  const value = 'A4NTaTl2l0x2gP280DjGJ_Tmf5hhoEyxZGK2uRZKkUYnD5XHEX5cUDCdXUqaqQ2XRyZ5Bg';
  expect(new Sealer([OLD]).open(value, HERE)).toEqual({ token: 'a-token' });
});

const codePoint = fc.integer({ min: 0, max: 0x10ffff }).map(
  (value) => String.fromCodePoint(value),
  (value) => String(value).codePointAt(0) as number,
);

/** Lone surrogates included; fast-check's own `binary` strings take a second to set up. */
const anyString = fc.string({ unit: codePoint });

const names = new Names('otr', new Uint8Array(32).fill(1));

it('names in Redis are the same in every replica with the same key, and reveal nothing of what they name', () => {
  const name = names.ofOwner('identity', 'ACCESS-KEY');
  expect(new Names('otr', new Uint8Array(32).fill(1)).ofOwner('identity', 'ACCESS-KEY')).toBe(name);
  expect(name).toMatch(/^otr:4:[\w-]{43}$/);
  expect(new Names('otr', new Uint8Array(32).fill(2)).ofOwner('identity', 'ACCESS-KEY')).not.toBe(name);
});

it('names in Redis differ by identity, by access key, and by where one ends and the other begins', () => {
  const pairs = fc.tuple(anyString, anyString);
  fc.assert(
    fc.property(pairs, pairs, ([identityA, keyA], [identityB, keyB]) => {
      const same = identityA === identityB && keyA === keyB;
      return (names.ofOwner(identityA, keyA) === names.ofOwner(identityB, keyB)) === same;
    }),
  );
  expect(names.ofOwner('a', 'bc')).not.toBe(names.ofOwner('ab', 'c'));
  expect(names.proofOf('rejected', 'name', 1)).not.toBe(names.proofOf('recovered', 'name', 1));
  expect(names.proofOf('present', 'name', 1, 23)).not.toBe(names.proofOf('present', 'name', 12, 3));
  // Both are U+FFFD in UTF-8.
  expect(names.ofOwner('a', '\ud800')).not.toBe(names.ofOwner('a', '\ud801'));
});

it('names in Redis are made with a key other than the sealing key', () => {
  const sealingKey = new Uint8Array(32).fill(7);
  expect(namingKeyFrom(sealingKey)).not.toEqual(sealingKey);
  expect(namingKeyFrom(sealingKey)).toEqual(namingKeyFrom(sealingKey));
});
