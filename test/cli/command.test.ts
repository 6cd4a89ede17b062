import { describe, expect, it } from 'vitest';
import { readFlags, UsageError } from '../../src/cli/command.ts';

const FLAGS = {
  json: { type: 'boolean' },
  port: { type: 'string' },
  owner: { type: 'string', multiple: true },
  'no-owner': { type: 'boolean' },
  'no-key': { type: 'boolean' },
} as const;

/** The error message for these arguments. */
function refusalOf(...args: string[]): string {
  try {
    readFlags(args, FLAGS);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return (error as Error).message;
  }
  throw new Error('these arguments were accepted');
}

describe('flags', () => {
  it('that are unknown are rejected with the nearest name', () => {
    expect(refusalOf('--prot', '80')).toBe('unknown option --prot; did you mean --port?');
    expect(refusalOf('--colour')).toBe('unknown option');
    expect(refusalOf('--constructor')).toBe('unknown option');
  });

  it('that negate are suggested only for another negation', () => {
    expect(refusalOf('--no-ownr')).toBe('unknown option --no-ownr; did you mean --no-owner?');
    expect(refusalOf('--ownr')).toBe('unknown option --ownr; did you mean --owner?');
    expect(refusalOf('--key')).toMatch(/from the environment, never from arguments/);
  });
});

describe('an argument that may be a secret', () => {
  it.each(['--client-secret', '--access-key', '--clientSecret', '--password', '--token'])(
    'as %s, is rejected with the reason',
    (flag) => {
      expect(refusalOf(flag, 'canary-91')).toMatch(/from the environment, never from arguments/);
    },
  );

  it.each([
    [['canary-91']],
    [['--json', 'canary-91']],
    [['-canary-91']],
    [['--client-secret=canary-91']],
    [['--client-secret', 'canary-91']],
    [['--', 'canary-91']],
    [['--json=canary-91']],
    [['--port', '-canary-91']],
    [['--canary-91']],
  ])('is never repeated: %j', (args) => {
    expect(refusalOf(...args)).not.toContain('canary');
  });
});
