/** Starts a sandbox from the command's flags, chooses its ports, and words its errors in terms of those flags. */

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { OwnerTokenError } from '../../index.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from '../../sandbox/index.ts';
import { UsageError } from '../command.ts';

/** The option of `startSandbox` that each flag sets. */
const OPTION_OF = {
  port: 'port',
  'portal-port': 'portalPort',
  host: 'host',
  owners: 'owners',
  lifetime: 'lifetimeSeconds',
  seed: 'seed',
  'secrets-folder': 'secretsFolder',
} as const satisfies Record<string, keyof SandboxOptions>;

type Flag = keyof typeof OPTION_OF;

const FLAGS = Object.keys(OPTION_OF) as Flag[];

/** Any other flag takes a number. */
const TEXTS: readonly Flag[] = ['host', 'secrets-folder'];

export const OPTION_FLAGS = Object.fromEntries([...FLAGS, 'config'].map((flag) => [flag, { type: 'string' }])) as {
  readonly [F in Flag | 'config']: { readonly type: 'string' };
};

type OptionFlags = { readonly [F in keyof typeof OPTION_FLAGS]?: string | undefined };

/** Fixed, so that the settings of an integration survive a restart. */
export const DEFAULT_PORTS = { port: 4010, portalPort: 4011 } as const;

/** How far above its default a free port is searched for, in steps of two: both ports keep their parity. */
const PORT_RANGE = 200;

/**
 * Starts a sandbox. A default port that is in use is replaced by the next free one; a given one is an error.
 *
 * @param defaults used where neither a flag nor the configuration says otherwise.
 */
export async function openSandbox(flags: OptionFlags, defaults: SandboxOptions): Promise<Sandbox> {
  const options = { ...defaults, ...optionsOf(flags) };
  const ports: { port: number; portalPort: number } = { ...DEFAULT_PORTS };
  for (;;) {
    try {
      return await startSandbox({ ...ports, ...options, unref: false });
    } catch (error) {
      const { code, port } = error as NodeJS.ErrnoException & { port?: number };
      const taken = (['port', 'portalPort'] as const).find(
        (name) => options[name] === undefined && ports[name] === port,
      );
      if (code !== 'EADDRINUSE' || !taken || ports[taken] - DEFAULT_PORTS[taken] >= PORT_RANGE) {
        throw inUsersWords(error, flags);
      }
      ports[taken] += 2;
    }
  }
}

function optionsOf(flags: OptionFlags): SandboxOptions {
  const given = FLAGS.flatMap((flag) => {
    const value = flags[flag];
    return value === undefined ? [] : [[OPTION_OF[flag], TEXTS.includes(flag) ? value : numberOf(flag, value)]];
  });
  return { ...(flags.config !== undefined && readConfig(flags.config)), ...Object.fromEntries(given) };
}

/** The sandbox checks the range. */
function numberOf(flag: string, value: string): number {
  if (!/^-?\d+(\.\d+)?$/.test(value)) throw new UsageError(`--${flag}: expected a number`);
  return Number(value);
}

/** Errors name the file, and never quote it: it may hold secrets. Nor do they quote what is no path, such as its content. */
function readConfig(path: string): SandboxOptions {
  let text: string;
  const file = /^[^"'{}\p{C}]{1,255}$/u.test(path) ? resolve(path) : 'the file';
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`--config: ${file} cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  try {
    const options: unknown = JSON.parse(text);
    if (typeof options === 'object' && options !== null && !Array.isArray(options)) return options;
  } catch {
    throw new UsageError(`--config: ${file} is not JSON`);
  }
  throw new UsageError(`--config: ${file} holds no JSON object with options of startSandbox`);
}

function inUsersWords(error: unknown, flags: OptionFlags): unknown {
  const { code, port } = error as NodeJS.ErrnoException & { port?: number };
  if (code === 'EADDRINUSE') {
    return new UsageError(
      `port ${port} is in use: choose another with --port or --portal-port, or 0 for any free port`,
    );
  }
  if (/^(EACCES|EADDRNOTAVAIL|EAI_AGAIN|EINVAL|ENOTFOUND)$/.test(code ?? '')) {
    return new UsageError(`cannot listen on this address (${code}): choose another --host or --port`);
  }
  if (!(error instanceof OwnerTokenError) || error.code !== 'invalid_options') return error;
  const flagOf = (option: string) => FLAGS.find((flag) => OPTION_OF[flag] === option && flags[flag]);
  return new UsageError(
    error.message
      .replace(/^.*\n/, 'invalid options:\n')
      .replaceAll(/^( {2}- )(\w+):/gm, (line, bullet: string, option: string) => {
        const flag = flagOf(option);
        return flag === undefined ? line : `${bullet}--${flag}:`;
      }),
  );
}
