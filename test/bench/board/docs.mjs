/** Stores one run, and renews the page of the board and the README's table from it. */

import { readFileSync, writeFileSync } from 'node:fs';
import { idOf, players } from './players.mjs';
import { partsOf } from './report.mjs';

const ROOT = new URL('../../../', import.meta.url);
const STORE = new URL('results.json', import.meta.url);

/** @param run everything about one run: its time, its conditions, and the outcomes by scene and library. */
export function renewDocs(run) {
  const pages = docsOf(run);
  writeFileSync(STORE, `${JSON.stringify(run, null, 1)}\n`);
  for (const [page, text] of Object.entries(pages)) writeFileSync(new URL(page, ROOT), text);
}

/** The pages as this run makes them, by their paths. Refuses a scene that some library did not play: nothing else compares. */
export function docsOf(run) {
  const missing = Object.entries(run.outcomes).flatMap(([id, outcomes]) =>
    players.filter((player) => outcomes[idOf(player)] === undefined).map((player) => `${id}: ${player.name}`),
  );
  if (missing.length > 0) throw new Error(`each library plays in one run, and this one lacks ${missing.join('; ')}`);
  const pages = Object.entries(partsOf(run)).map(([page, parts]) => {
    const place = (name) => new RegExp(`(<!-- ${name} -->\\n)[^]*?(<!-- end -->)`);
    const text = Object.entries(parts).reduce(
      (all, [name, part]) => all.replace(place(name), (_all, begin, end) => `${begin}\n${part}\n\n${end}`),
      readFileSync(new URL(page, ROOT), 'utf8'),
    );
    return [page, text];
  });
  return Object.fromEntries(pages);
}
