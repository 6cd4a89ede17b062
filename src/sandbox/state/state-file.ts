/**
 * The optional state file: apps, owners, keys, profile and unexpired tokens, so that clients survive a restart of the
 * sandbox. It holds the emulated service's secrets, so only its owner may read it. A lock file beside it keeps a second
 * sandbox away.
 */

import {
  closeSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { AccessKey, App, Owner } from './directory.ts';
import { StateFileError } from './problems.ts';
import { changedProfile, type Profile, type ProfileChanges } from './profile.ts';
import type { World } from './world.ts';

const FORMAT = 1;

/** Delay between a change and its write, on the machine's clock. */
const WRITE_AFTER_MS = 200;

/** Beyond this many tokens the oldest are not written. */
const MAX_TOKENS = 10_000;

interface State {
  format: typeof FORMAT;
  /** The seed it was made with; absent: none. */
  seed?: number;
  /** Where the planes listened last, for a start that is to use the same ports. */
  ports?: Ports;
  secrets: { key: string; made: number };
  /** How far the sandbox's clock is ahead of the machine's. */
  aheadMs: number;
  profile: Profile;
  apps: App[];
  owners: Owner[];
  accessKeys: AccessKey[];
  tokens: StoredToken[];
}

interface StoredToken {
  value: string;
  accessKey: string;
  issuedAtMs: number;
  expiresAtMs: number;
  usableFromMs: number;
  revokedAtMs?: number;
}

export interface Ports {
  readonly port: number;
  readonly portalPort: number;
}

/** The options that were given explicitly, and so must hold beside an existing file too. */
export interface GivenOptions {
  readonly owners?: number | undefined;
  readonly seed?: number | undefined;
  readonly profile?: ProfileChanges | undefined;
}

/** Writes the state of a world to a file, soon after each change and on close. */
export class StateFile {
  /** As given, for messages. */
  readonly #given: string;
  /** The file itself: writing must not replace a link to it. */
  readonly #path: string;
  readonly #world: World;
  #seed: number | undefined;
  #ports: Ports | undefined;
  #timer: NodeJS.Timeout | undefined;
  #warned = false;
  #released = false;

  /** Locks the file. Throws a `StateFileError` if the path cannot be used or another sandbox uses it. */
  constructor(path: string, world: World) {
    this.#given = path;
    this.#world = world;
    this.#path = targetOf(path);
    if (!this.#mayBeFile()) {
      throw new StateFileError('state_not_a_file', path, 'this is not a regular file: give the path of a file');
    }
    this.#lock();
  }

  /** Restores what the file holds, or creates it. Options given beside it are applied, or refused where they conflict. */
  load(given: GivenOptions): void {
    const text = this.#read();
    if (text === undefined) {
      this.#seed = given.seed;
      this.write();
      return;
    }
    const state = this.#parse(text);
    this.#seed = state.seed;
    this.#ports = state.ports;
    if (given.seed !== undefined && given.seed !== state.seed) {
      const made = state.seed === undefined ? 'without a seed' : `with the seed ${state.seed}`;
      throw this.#conflict(`it was created ${made}: leave out the seed, or use another file`);
    }
    this.#restore(state);
    const { directory } = this.#world;
    const { owners, profile } = given;
    if (owners !== undefined && owners < directory.owners.size) {
      const hint = 'leave out the number of owners, or use another file';
      throw this.#conflict(`it holds ${directory.owners.size} owners, and ${owners} were asked for: ${hint}`);
    }
    if (owners !== undefined) directory.seed(owners);
    if (profile) this.#world.profile = changedProfile(this.#world.profile, profile);
  }

  /** Records where the planes listen. */
  keepPorts(ports: Ports): void {
    this.#ports = ports;
    this.touch();
  }

  /** Call it when anything has changed. */
  touch(): void {
    if (this.#released) return;
    this.#timer ??= setTimeout(() => {
      try {
        this.write();
      } catch (error) {
        if (!this.#warned) process.emitWarning((error as Error).message);
        this.#warned = true;
      }
    }, WRITE_AFTER_MS).unref();
  }

  /** Replaces the file in one step, so that a crash leaves the old or the new one. */
  write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const temporary = `${this.#path}.${process.pid}.tmp`;
    try {
      const state: State = {
        ...stateOf(this.#world),
        ...(this.#seed !== undefined && { seed: this.#seed }),
        ...(this.#ports && { ports: this.#ports }),
      };
      writeFileSync(temporary, `${JSON.stringify(state, undefined, 1)}\n`, { mode: 0o600 });
      renameSync(temporary, this.#path);
    } catch (error) {
      rmSync(temporary, { force: true });
      throw this.#unwritable(error);
    }
  }

  /** Removes the lock. */
  release(): void {
    this.#released = true;
    clearTimeout(this.#timer);
    rmSync(this.#lockPath, { force: true });
  }

  /** Whether the path names a regular file, or nothing yet. Anything else is never opened: a device may have no end. */
  #mayBeFile(): boolean {
    try {
      return statSync(this.#path, { throwIfNoEntry: false })?.isFile() ?? true;
    } catch (error) {
      throw this.#unwritable(error);
    }
  }

  get #lockPath(): string {
    return `${this.#path}.lock`;
  }

  /** Creates the lock file with this process's id. A lock whose process has died is taken over. */
  #lock(): void {
    for (const lastTry of [false, true]) {
      try {
        const file = openSync(this.#lockPath, 'wx', 0o600);
        writeFileSync(file, `${process.pid}\n`);
        closeSync(file);
        return;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw this.#unwritable(error);
        const pid = lockHolder(this.#lockPath);
        if (lastTry || (pid !== undefined && isAlive(pid))) throw this.#locked(pid);
        rmSync(this.#lockPath, { force: true });
      }
    }
  }

  #read(): string | undefined {
    try {
      return readFileSync(this.#path, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw this.#unwritable(error);
    }
  }

  /** The parser's own message would quote the file, so it is not passed on. */
  #parse(text: string): State {
    try {
      const state: State = JSON.parse(text);
      if (state.format === FORMAT) return state;
    } catch {
      throw this.#damaged('it is not JSON');
    }
    throw this.#damaged(`it is not a state of this version (format ${FORMAT})`);
  }

  #restore(state: State): void {
    const world = this.#world;
    try {
      world.clock.advance(Math.max(0, state.aheadMs));
      world.secrets.restore(state.secrets);
      world.profile = changedProfile(world.profile, state.profile);
      world.directory.restore(state.apps, state.owners, state.accessKeys);
      for (const { value, accessKey, ...times } of state.tokens) {
        const key = world.directory.accessKeys.get(accessKey);
        if (key) world.tokens.restore(value, { accessKey: key, ...times });
      }
    } catch {
      throw this.#damaged('members are missing or invalid');
    }
  }

  #damaged(why: string): StateFileError {
    return new StateFileError('state_damaged', this.#given, `damaged, ${why}. Move it away to start with a new one`);
  }

  #conflict(why: string): StateFileError {
    return new StateFileError('state_conflict', this.#given, why);
  }

  #locked(pid: number | undefined): StateFileError {
    const by = pid === undefined ? 'another sandbox' : `another sandbox (process ${pid})`;
    const hint = `stop it, or use another file. If none runs, delete ${this.#lockPath}`;
    return new StateFileError('state_locked', this.#given, `in use by ${by}: ${hint}`);
  }

  #unwritable(error: unknown): StateFileError {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    const why = UNWRITABLE[code] ?? `it cannot be read or written (${code})`;
    return new StateFileError('state_unwritable', this.#given, `${why}: choose a path in a writable folder`, error);
  }
}

const UNWRITABLE: Readonly<Record<string, string>> = {
  ENOENT: 'its folder does not exist',
  ENOTDIR: 'its folder is a file',
  ENAMETOOLONG: 'its name is too long',
  ELOOP: 'its symbolic links form a loop',
  EACCES: 'no permission to read or write it',
};

/** The file that a path names, through symbolic links, also where their target does not exist yet. */
function targetOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    try {
      return resolve(dirname(path), readlinkSync(path));
    } catch {
      return resolve(path);
    }
  }
}

function lockHolder(path: string): number | undefined {
  try {
    const pid = Number(readFileSync(path, 'utf8'));
    return Number.isInteger(pid) && pid > 0 ? pid : undefined;
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It exists, and belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function stateOf(world: World): State {
  const nowMs = world.clock.now();
  const { apps, owners, accessKeys } = world.directory;
  const tokens = [...world.tokens.entries(nowMs)].slice(-MAX_TOKENS);
  return {
    format: FORMAT,
    secrets: { key: world.secrets.key, made: world.secrets.made },
    aheadMs: Math.max(0, nowMs - Date.now()),
    profile: world.profile,
    apps: [...apps.values()],
    owners: [...owners.values()],
    accessKeys: [...accessKeys.values()],
    tokens: tokens.map(([value, { accessKey, issuedAtMs, expiresAtMs, usableFromMs, revokedAtMs }]) => {
      const times = { issuedAtMs, expiresAtMs, usableFromMs, ...(revokedAtMs !== undefined && { revokedAtMs }) };
      return { value, accessKey: accessKey.id, ...times };
    }),
  };
}
