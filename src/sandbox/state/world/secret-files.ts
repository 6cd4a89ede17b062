import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { invalidOptions } from '../../../option-check.ts';
import { currentKeys } from './actions.ts';
import type { World } from './world.ts';

/**
 * The client secret and the access keys, each in a file that is replaced at every change, as secret stores
 * do it. So an integration gets a rotated secret, and as many keys as there are. Only the files' owner may read them.
 */
export class SecretFiles {
  /** Holds the current client secret. */
  readonly clientSecret: string;
  /** Holds one access key a line. */
  readonly accessKeys: string;
  readonly #world: World;
  readonly #written = new Map<string, string>();

  constructor(folder: string, world: World) {
    this.clientSecret = join(resolve(folder), 'client-secret');
    this.accessKeys = join(resolve(folder), 'access-keys');
    this.#world = world;
    try {
      if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
      this.update();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw invalidOptions('startSandbox', [`secretsFolder: expected a folder that can be written (${code})`]);
    }
  }

  /** Writes what has changed. */
  update(): void {
    const keys = [...currentKeys(this.#world).values()].map(({ value }) => `${value}\n`);
    this.#replace(this.clientSecret, this.#world.directory.client.secrets[0]?.value ?? '');
    this.#replace(this.accessKeys, keys.join(''));
  }

  /** A reader sees the old content or the new, never a part. */
  #replace(path: string, content: string): void {
    if (this.#written.get(path) === content) return;
    this.#written.set(path, content);
    writeFileSync(`${path}.new`, content, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  }
}
