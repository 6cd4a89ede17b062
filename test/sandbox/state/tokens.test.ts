import { describe, expect, it } from 'vitest';
import { Directory } from '../../../src/sandbox/state/directory.ts';
import { Secrets } from '../../../src/sandbox/state/secrets.ts';
import { type IssueOptions, Tokens } from '../../../src/sandbox/state/tokens.ts';

const OPTIONS: IssueOptions = { format: 'opaque', lifetimeMs: 1000, revokePrevious: false, replicationLagMs: 0 };

function world() {
  const secrets = new Secrets(1);
  const directory = new Directory(secrets);
  directory.seed(2);
  const [first, second] = directory.accessKeys.values();
  if (!first || !second) throw new Error('there are two');
  return { tokens: new Tokens(secrets), first, second };
}

describe('Tokens', () => {
  it('keeps the last 100,000 and forgets the oldest', () => {
    const { tokens, first } = world();
    const values = Array.from({ length: 100_001 }, () => tokens.issue(first, 0, OPTIONS).value);
    expect(tokens.find(values.at(-1) ?? '')).toBeDefined();
    expect(tokens.find(values[0] ?? '')).toBeUndefined();
    expect([...tokens.entries(0)].length).toBeLessThanOrEqual(100_000);
    expect([...tokens.entries(0)].length).toBeGreaterThanOrEqual(90_000);
    expect(new Set(values).size).toBe(values.length);
  });

  it('is live from the end of its lag to the end of its life, to the millisecond', () => {
    const { tokens, first } = world();
    const { token } = tokens.issue(first, 100, { ...OPTIONS, replicationLagMs: 10 });
    const states = [100, 109, 110, 1099, 1100].map((nowMs) => tokens.stateOf(token, nowMs));
    expect(states).toEqual(['lagging', 'lagging', 'live', 'live', 'expired']);
    tokens.revokeWhere(() => true, 500);
    expect(tokens.stateOf(token, 500)).toBe('revoked');
    expect(tokens.stateOf(undefined, 500)).toBe('unknown');
  });

  it('is good in the first half of its life, if its holder has it and may use it', () => {
    const { tokens, first, second } = world();
    const { value, token } = tokens.issue(first, 0, OPTIONS);
    expect(tokens.goodTokenOf(first, 499)).toBe(token);
    expect(tokens.goodTokenOf(first, 500)).toBeUndefined();
    expect(tokens.goodTokenOf(second, 0)).toBeUndefined();
    token.delivered = false;
    expect(tokens.goodTokenOf(first, 0)).toBeUndefined();
    token.delivered = true;
    token.refused = true;
    expect(tokens.goodTokenOf(first, 0)).toBeUndefined();
    token.refused = false;
    tokens.revoke(value, 1);
    expect(tokens.goodTokenOf(first, 0)).toBeUndefined();
  });

  it('that went astray neither replaces nor ends the one that its owner has', () => {
    const { tokens, first } = world();
    const { token } = tokens.issue(first, 0, OPTIONS);
    tokens.issue(first, 1, { ...OPTIONS, revokePrevious: true, stray: true });
    expect(tokens.goodTokenOf(first, 1)).toBe(token);
  });
});
