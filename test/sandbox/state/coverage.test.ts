import { describe, expect, it } from 'vitest';
import { Directory } from '../../../src/sandbox/state/directory.ts';
import { Secrets } from '../../../src/sandbox/state/secrets.ts';
import { Tokens } from '../../../src/sandbox/state/tokens.ts';
import { seeded } from '../../helpers/seeded.mjs';

function world(owners: number) {
  const secrets = new Secrets(1);
  const directory = new Directory(secrets);
  directory.seed(owners);
  const tokens = new Tokens(secrets);
  const keys = [...directory.accessKeys.values()];
  const issue = (owner: number, nowMs: number, lifetimeMs = 1000) => {
    const key = keys[owner];
    if (!key) throw new Error('there is no such owner');
    return tokens.issue(key, nowMs, { format: 'opaque', lifetimeMs, revokePrevious: false, replicationLagMs: 0 });
  };
  return { tokens, issue };
}

describe('the number of owners with a usable token', () => {
  it('follows issue, expiry, revocation and loss', () => {
    const { tokens, issue } = world(3);
    issue(0, 0);
    issue(0, 100);
    const second = issue(1, 0, 5000);
    expect(tokens.ownersCovered(500)).toBe(2);
    expect(tokens.ownersCovered(1050)).toBe(2);
    expect(tokens.ownersCovered(1100)).toBe(1);
    tokens.revoke(second.value, 1200);
    expect(tokens.ownersCovered(1200)).toBe(0);
    const third = issue(2, 1300);
    tokens.markLost(third.token, 1300);
    expect(tokens.ownersCovered(1300)).toBe(0);
  });

  it('falls back to an older token that lives longer', () => {
    const { tokens, issue } = world(1);
    issue(0, 0, 10_000);
    issue(0, 10, 100);
    expect(tokens.ownersCovered(200)).toBe(1);
    expect(tokens.coveredUntil('owner-001', 200)).toBe(10_000);
    expect(tokens.ownersCovered(10_000)).toBe(0);
  });

  it('is what a count over all tokens gives, over random histories', () => {
    const { tokens, issue } = world(8);
    const next = seeded(1);
    const random = (below: number) => Math.floor(next() * below);
    const issued: { owner: number; token: ReturnType<typeof issue> }[] = [];
    for (let nowMs = 0; nowMs < 4000; nowMs += random(4)) {
      const owner = random(8);
      const action = random(6);
      if (action < 4) issued.push({ owner, token: issue(owner, nowMs, 1 + random(400)) });
      const some = issued[random(issued.length || 1)];
      if (action === 4 && some) tokens.revoke(some.token.value, nowMs);
      if (action === 5 && some) tokens.markLost(some.token.token, nowMs);
      const usable = issued.filter(
        ({ token: { token } }) => token.delivered && token.revokedAtMs === undefined && nowMs < token.expiresAtMs,
      );
      expect(tokens.ownersCovered(nowMs)).toBe(new Set(usable.map((each) => each.owner)).size);
    }
  });
});
