import { describe, expect, it } from 'vitest';
import { Directory } from '../../../../src/sandbox/state/world/directory.ts';
import { Secrets } from '../../../../src/sandbox/state/world/secrets.ts';
import { type IssueOptions, Tokens } from '../../../../src/sandbox/state/world/tokens.ts';

const OPTIONS: IssueOptions = { format: 'opaque', lifetimeMs: 1000, revokePrevious: false, replicationLagMs: 0 };

function world() {
  const secrets = new Secrets(1);
  const directory = new Directory(secrets);
  directory.seed(2);
  const [first, second] = directory.accessKeys.values();
  if (!first || !second) throw new Error('there are two');
  return { tokens: new Tokens(secrets), first, second };
}

describe('tokens', () => {
  it('are kept up to 100,000, and then the oldest are forgotten', () => {
    const { tokens, first } = world();
    const values = Array.from({ length: 100_001 }, () => tokens.issue(first, 0, OPTIONS).value);
    expect(tokens.find(values.at(-1) ?? '')).toBeDefined();
    expect(tokens.find(values[0] ?? '')).toBeUndefined();
    expect([...tokens.endingAfter(0)].length).toBeLessThanOrEqual(100_000);
    expect([...tokens.endingAfter(0)].length).toBeGreaterThanOrEqual(90_000);
    expect(new Set(values).size).toBe(values.length);
  });

  it('are accepted from the moment they are replicated until just before they end', () => {
    const { tokens, first } = world();
    const { token } = tokens.issue(first, 0, { ...OPTIONS, replicationLagMs: 100 });
    const states = [0, 99, 100, 999, 1000, 1001].map((nowMs) => tokens.stateOf(token, nowMs));
    expect(states).toEqual(['lagging', 'lagging', 'live', 'live', 'expired', 'expired']);
    expect([999, 1000].map((nowMs) => [...tokens.endingAfter(nowMs)].length)).toEqual([1, 0]);
  });

  it('cover their owner while a newer one was lost, until they end or are revoked', () => {
    const { tokens, first, second } = world();
    const { value } = tokens.issue(first, 0, OPTIONS);
    tokens.issue(first, 500, OPTIONS).token.delivered = false;
    tokens.issue(second, 500, { ...OPTIONS, stray: true });
    expect([...tokens.coveredOwners(999)]).toEqual([[first.ownerId, 1000]]);
    expect([tokens.ownersCovered(999), tokens.ownersCovered(1000)]).toEqual([1, 0]);
    tokens.revoke(value, 600);
    expect([tokens.coveredOwners(600).size, tokens.ownersCovered(600)]).toEqual([0, 0]);
  });
});
