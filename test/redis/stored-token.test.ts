import fc from 'fast-check';
import { expect, it } from 'vitest';
import { assessLifetime, type ExpiryPolicy, endOf } from '../../src/expiry/lifetime.ts';
import { expiresIn, firstKnown, fixedLifetime, jwtExp } from '../../src/expiry/policies.ts';
import { Sealer } from '../../src/redis/sealing.ts';
import { issuedTokenFrom, openToken, type SharedToken, sealToken } from '../../src/redis/stored-token.ts';
import type { IssuedToken } from '../../src/token-source.ts';
import { jwt } from '../helpers/jwt.ts';
import { requestOf } from '../helpers/model-fleet.ts';

const NOW = Date.UTC(2030, 0, 1);
const shared = (changes: Partial<SharedToken> = {}): SharedToken => ({
  token: 'opaque',
  response: { expires_in: 600 },
  requestedAtUs: 1,
  lifetimeMs: 600_000,
  ...changes,
});
const lifetimeBy = (policy: ExpiryPolicy) => (grant: IssuedToken) =>
  assessLifetime(policy.lifetimeMs(grant)).lifetimeMs;
const lifetimeMs = lifetimeBy(expiresIn());

it('a shared token is as first obtained, its age counted from before the record was read', () => {
  const token = shared({ tokenType: 'DPoP' });
  const grant = issuedTokenFrom(token, { ageMs: 60_000.5, askedAtMs: NOW, nowMs: NOW }, lifetimeMs);
  const { response, tokenType } = token;
  expect(grant).toEqual({ token: 'opaque', tokenType, response, requestedAtMs: NOW - 60_001 });
});

it('a shared token is absent when it has expired, or its age is impossible', () => {
  const of = (ageMs: number) => issuedTokenFrom(shared(), { ageMs, askedAtMs: NOW, nowMs: NOW }, lifetimeMs);
  expect(of(588_900)).toBeDefined();
  // Less than a second is left: it would end on its way.
  expect(of(589_100)).toBeUndefined();
  expect(of(-1_001)).toBeUndefined();
  expect(of(Number.NaN)).toBeUndefined();
});

it('a short-lived shared token is absent in the last tenth of its life', () => {
  const token = shared({ response: { expires_in: 10 }, lifetimeMs: 10_000 });
  const of = (ageMs: number) => issuedTokenFrom(token, { ageMs, askedAtMs: NOW, nowMs: NOW }, () => 10_000);
  // One twentieth is the safety margin, and another allows for the transfer.
  expect(of(8_999)).toBeDefined();
  expect(of(9_000)).toBeUndefined();
});

it('a token is stored for as long as another replica can use it', () => {
  const sealer = new Sealer([new Uint8Array(32).fill(1)]);
  const at = { requestedAtUs: 5_000_000, serverUs: 7_000_000 };
  const sealedFor = (lifetimeMs: number | (() => number)) => {
    const statedLifetime = typeof lifetimeMs === 'number' ? () => lifetimeMs : lifetimeMs;
    return (
      sealToken(sealer, 'context', { token: 'opaque' }, requestOf({ lifetimeMs: statedLifetime }), at) || undefined
    );
  };
  expect(sealedFor(10_000)?.usableUntilUs).toBe(7_000_000 + 9_000_000);
  expect(sealedFor(600_000)?.usableUntilUs).toBe(7_000_000 + 589_000_000);
  const opened = openToken(sealer, 'context', sealedFor(10_000)?.sealed ?? '');
  expect(opened).toEqual({ token: 'opaque', response: {}, requestedAtUs: 5_000_000, lifetimeMs: 10_000 });
  const throwing = () => {
    throw new Error('no policy');
  };
  expect(sealedFor(throwing)).toBeUndefined();
});

it('a shared token is new when two estimates of the time make it a little younger than that', () => {
  const at = { ageMs: -1_000, askedAtMs: NOW, nowMs: NOW };
  expect(issuedTokenFrom(shared(), at, lifetimeMs)?.requestedAtMs).toBe(NOW);
});

it('a shared token is absent when it is a JWT past its own exp, unless tokens are kept until rejected', () => {
  const token = shared({ token: jwt({ exp: NOW / 1000 - 1 }) });
  const at = { ageMs: 0, askedAtMs: NOW, nowMs: NOW };
  expect(issuedTokenFrom(token, at, lifetimeMs)).toBeUndefined();
  expect(issuedTokenFrom({ ...token, lifetimeMs: Infinity }, at, () => Infinity)).toBeDefined();
  // By the service's own clock it has not ended.
  expect(issuedTokenFrom({ ...token, serviceTimeMs: NOW - 10_000 }, at, lifetimeMs)).toBeDefined();
  expect(issuedTokenFrom(shared({ token: jwt({ exp: NOW / 1000 }) }), at, lifetimeMs)).toBeUndefined();
  expect(issuedTokenFrom(shared({ token: jwt({ exp: NOW / 1000 + 1 }) }), at, lifetimeMs)).toBeDefined();
});

it('a shared token is absent if the policy would keep it for good though its leader knew an end', () => {
  const at = { ageMs: 0, askedAtMs: NOW, nowMs: NOW };
  expect(issuedTokenFrom(shared(), at, () => Infinity)).toBeUndefined();
});

it('a shared token never outlives what its leader sealed, whatever the policy, the age and the clocks', () => {
  const policies = [
    expiresIn(),
    jwtExp(),
    firstKnown(expiresIn(), jwtExp()),
    fixedLifetime(60_000),
    fixedLifetime(7_200_000),
  ];
  const minutes = fc.integer({ min: -30, max: 30 });
  const numbers = fc.tuple(fc.nat(policies.length - 1), fc.nat(policies.length - 1), minutes, fc.nat(3_000_000));
  fc.assert(
    fc.property(numbers, fc.boolean(), fc.boolean(), ([mine, theirs, skewMin, ageMs], stated, iat) => {
      const issued = NOW / 1000;
      const token = jwt({ exp: issued + 3600, ...(iat && { iat: issued }) });
      const grant = { token, requestedAtMs: NOW, ...(stated && { response: { expires_in: 3600 } }) };
      const life = (index: number, of: IssuedToken) => lifetimeBy(policies[index] as ExpiryPolicy)(of);
      const sealed = { ...grant, requestedAtUs: 1, lifetimeMs: life(theirs, grant) };
      const askedAtMs = NOW + ageMs + skewMin * 60_000;
      const adopted = issuedTokenFrom(sealed, { ageMs, askedAtMs, nowMs: askedAtMs }, (of) => life(mine, of));
      if (!adopted) return true;
      const ends = endOf(adopted.requestedAtMs ?? Number.NaN, life(mine, adopted));
      return ends <= askedAtMs - ageMs + sealed.lifetimeMs && ends > askedAtMs && adopted.token === token;
    }),
  );
});
