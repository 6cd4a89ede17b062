/**
 * The optional state file: who there is, what they may do, and the tokens that are good, so that a restart changes
 * nothing for whoever uses the sandbox. It holds secrets of the emulated service, so only its owner may read it.
 */

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { AccessKey, App, Owner } from './directory.ts';
import { BadRequest } from './problems.ts';
import { changedProfile, type Profile } from './profile.ts';
import type { World } from './world.ts';

const FORMAT = 1;

/** How long after a change it is written, by the machine's clock. */
const WRITE_AFTER_MS = 200;

/** Of more tokens, the newest are kept. */
const MAX_TOKENS = 10_000;

interface State {
  format: typeof FORMAT;
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
  fingerprint: string;
  accessKey: string;
  issuedAtMs: number;
  expiresAtMs: number;
  usableFromMs: number;
  revokedAtMs?: number;
}

/** Writes the state of a world to a file, soon after it changed and when it is closed. */
export class StateFile {
  readonly #path: string;
  readonly #world: World;
  #timer: NodeJS.Timeout | undefined;

  constructor(path: string, world: World) {
    this.#path = path;
    this.#world = world;
  }

  /** Takes over what the file holds; a file that does not exist yet is made. Throws where it holds no state. */
  load(): void {
    const text = this.#read();
    if (text === undefined) this.write();
    else restore(this.#world, parse(text));
  }

  /** To be called when anything has changed. */
  touch(): void {
    this.#timer ??= setTimeout(() => {
      try {
        this.write();
      } catch {
        process.emitWarning('the state file of the sandbox cannot be written');
      }
    }, WRITE_AFTER_MS).unref();
  }

  /** Writes to a new file first, so that a crash leaves either the old one or the new one. */
  write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const temporary = `${this.#path}.${process.pid}.tmp`;
    try {
      writeFileSync(temporary, `${JSON.stringify(stateOf(this.#world), undefined, 1)}\n`, { mode: 0o600 });
      renameSync(temporary, this.#path);
    } catch (error) {
      rmSync(temporary, { force: true });
      throw error;
    }
  }

  #read(): string | undefined {
    try {
      return readFileSync(this.#path, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
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
    tokens: tokens.map(([value, { fingerprint, accessKey, issuedAtMs, expiresAtMs, usableFromMs, revokedAtMs }]) => {
      const times = { issuedAtMs, expiresAtMs, usableFromMs, ...(revokedAtMs !== undefined && { revokedAtMs }) };
      return { value, fingerprint, accessKey: accessKey.id, ...times };
    }),
  };
}

function parse(text: string): State {
  try {
    const state: State = JSON.parse(text);
    if (state.format === FORMAT) return state;
  } catch {
    // Told below; the parser's own message would quote the file.
  }
  throw new BadRequest(`the state file is not one of this sandbox (format ${FORMAT}): move it away to start anew`);
}

function restore(world: World, state: State): void {
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
    throw new BadRequest('the state file is damaged: move it away to start anew');
  }
}
