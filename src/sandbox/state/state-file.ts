/**
 * The optional state file: apps, owners, keys, profile and unexpired tokens, so that clients survive a restart of the
 * sandbox. It holds the emulated service's secrets, so only its owner may read it. A lock file beside it keeps a second
 * sandbox away.
 */

import { readFileSync, readlinkSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { type StateFileCode, StateFileError } from './problems.ts';
import { changedProfile, type ProfileChanges } from './profile.ts';
import { FORMAT, type StoredState, storedState } from './stored-state.ts';
import type { World } from './world.ts';

/** Delay between a change and its write, on the machine's clock. */
const WRITE_AFTER_MS = 200;

/** Beyond this many tokens the oldest are not written. */
const MAX_TOKENS = 10_000;

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
      throw this.#problem('state_not_a_file', 'this is not a regular file: give the path of a file');
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
      throw this.#problem('state_conflict', `it was created ${made}: leave out the seed, or use another file`);
    }
    this.#restore(state);
    const { directory } = this.#world;
    const { owners, profile } = given;
    if (owners !== undefined && owners < directory.owners.size) {
      const hint = 'leave out the number of owners, or use another file';
      const why = `it holds ${directory.owners.size} owners, and ${owners} were asked for: ${hint}`;
      throw this.#problem('state_conflict', why);
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
      const state: StoredState = { seed: this.#seed, ports: this.#ports, ...stateOf(this.#world) };
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
        writeFileSync(this.#lockPath, `${process.pid}\n`, { flag: 'wx', mode: 0o600 });
        return;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw this.#unwritable(error);
        const pid = holderOf(this.#lockPath);
        if (lastTry || pid !== undefined) throw this.#locked(pid);
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

  /** The message of a parser, or of a check, could quote the file, so it is not passed on. */
  #parse(text: string): StoredState {
    let given: { readonly format?: unknown };
    try {
      given = Object(JSON.parse(text));
    } catch {
      throw this.#damaged('it is not JSON');
    }
    if (given.format !== FORMAT) throw this.#damaged(`it is not a state of this version (format ${FORMAT})`);
    try {
      return storedState(given);
    } catch {
      throw this.#damaged(INVALID);
    }
  }

  #restore(state: StoredState): void {
    const world = this.#world;
    try {
      world.clock.advance(Math.max(0, state.aheadMs));
      world.secrets.restore(state.secrets);
      world.profile = changedProfile(world.profile, state.profile);
      world.directory.restore(state.apps, state.owners, state.accessKeys);
      for (const { value, accessKey, revokedAtMs, ...times } of state.tokens) {
        const key = world.directory.accessKeys.get(accessKey);
        if (key) world.tokens.restore(value, { accessKey: key, revokedAtMs, ...times });
      }
    } catch {
      throw this.#damaged(INVALID);
    }
  }

  #damaged(why: string): StateFileError {
    return this.#problem('state_damaged', `damaged, ${why}. Move it away to start with a new one`);
  }

  #locked(pid: number | undefined): StateFileError {
    const by = pid === undefined ? 'another sandbox' : `another sandbox (process ${pid})`;
    const hint = `stop it, or use another file. If none runs, delete ${this.#lockPath}`;
    return this.#problem('state_locked', `in use by ${by}: ${hint}`);
  }

  #unwritable(error: unknown): StateFileError {
    const { code = 'unknown error' } = error as NodeJS.ErrnoException;
    const why = UNWRITABLE[code] ?? `it cannot be read or written (${code})`;
    return this.#problem('state_unwritable', `${why}: choose a path in a writable folder`, error);
  }

  #problem(code: StateFileCode, why: string, cause?: unknown): StateFileError {
    return new StateFileError(code, this.#given, why, cause);
  }
}

const INVALID = 'members are missing or invalid';

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

/** The process that holds a lock, if it is alive. */
function holderOf(path: string): number | undefined {
  let pid = 0;
  try {
    pid = Number(readFileSync(path, 'utf8'));
    if (!(pid > 0)) return undefined;
    process.kill(pid, 0);
    return pid;
  } catch (error) {
    // It exists, and belongs to another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? pid : undefined;
  }
}

function stateOf(world: World): Omit<StoredState, 'seed' | 'ports'> {
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
      return { value, accessKey: accessKey.id, issuedAtMs, expiresAtMs, usableFromMs, revokedAtMs };
    }),
  };
}
