/**
 * The libraries that these tests play: on Node 20 those of the root's `package.json`, on newer lines those of `newest/`, which CI
 * installs there.
 */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../helpers/source-files.ts';

const NEWEST = join(ROOT, 'test/doubles/newest');

/** Whether to play the libraries of `newest/`: CI sets `OTHER_LINE` on newer lines. */
export const HAS_NEWEST = process.env.OTHER_LINE !== undefined;

// biome-ignore lint/suspicious/noExplicitAny: the root has no types of most of them.
export const load: (name: string) => Promise<any> = HAS_NEWEST
  ? (await import('./newest/load.ts')).load
  : (name) => import(/* @vite-ignore */ name);

/** The major version of a library that is loaded. */
export function majorOf(name: string): number {
  const manifest = join(HAS_NEWEST ? NEWEST : ROOT, 'node_modules', name, 'package.json');
  return Number.parseInt(JSON.parse(readFileSync(manifest, 'utf8')).version, 10);
}
