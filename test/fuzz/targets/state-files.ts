/** State files of the sandbox, damaged: it starts with what a file holds and works, or says that the file is damaged. */

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { type Sandbox, StateFileError, startSandbox } from '../../../src/sandbox/index.ts';
import { askToken, call, echo } from '../../sandbox/client.ts';
import { oddValues, texts } from '../inputs.ts';
import { must, type Target } from '../target.ts';

/** `at`: the number of a place, or its path, which an entry of the corpus keeps for longer. */
type Edit = { readonly at: number | string; readonly put: unknown; readonly how: 'replace' | 'remove' | 'repeat' };

const edits = fc.array(
  fc.record({
    at: fc.nat(),
    put: oddValues,
    how: fc.constantFrom('replace' as const, 'remove' as const, 'repeat' as const),
  }),
  { minLength: 1, maxLength: 3 },
);
const cuts = fc.option(fc.record({ at: fc.nat(), cut: fc.nat(200), put: texts }), { nil: undefined, freq: 4 });

/** Every place in a value where something can be changed. */
function placesIn(value: unknown, above = ''): { path: string; holder: Record<string, unknown>; name: string }[] {
  if (typeof value !== 'object' || value === null) return [];
  const holder = value as Record<string, unknown>;
  return Object.keys(holder).flatMap((name) => {
    const path = `${above}/${name}`;
    return [{ path, holder, name }, ...placesIn(holder[name], path)];
  });
}

function edited(text: string, all: readonly Edit[]): string {
  const state: unknown = JSON.parse(text);
  for (const { at, put, how } of all) {
    const places = placesIn(state);
    const place = typeof at === 'string' ? places.find(({ path }) => path === at) : places[at % places.length];
    if (!place) continue;
    const { holder, name } = place;
    if (how === 'replace') holder[name] = put;
    else if (how === 'remove' && !Array.isArray(place.holder)) delete holder[name];
    else if (how === 'remove') (holder as unknown as unknown[]).splice(Number(name), 1);
    else if (Array.isArray(place.holder)) place.holder.push(structuredClone(holder[name]));
    else holder[name] = [holder[name], holder[name]];
  }
  return JSON.stringify(state);
}

/** A sandbox with this file, or why it does not start. */
async function started(stateFile: string): Promise<Sandbox | undefined> {
  try {
    return await startSandbox({ stateFile });
  } catch (error) {
    must(error instanceof StateFileError, `it did not start: ${(error as Error).stack}`);
    must(error.code === 'state_damaged', `it did not start: ${error.code}`);
    must(!/sbx_/.test(error.message), 'the error quotes a secret');
    must(!existsSync(`${stateFile}.lock`), 'the file stays locked');
    return undefined;
  }
}

const portal = async ({ portalUrl }: Sandbox, path: string) => call(`${portalUrl}${path}`);

async function mustWork(sandbox: Sandbox): Promise<void> {
  for (const path of ['/api/state', '/api/owners', '/api/facts', '/openapi.json']) {
    const { status } = await portal(sandbox, path);
    must(status < 500, `${path} is answered with ${status}`);
  }
  for (const key of sandbox.accessKeys.slice(0, 3)) {
    const { status, json } = await askToken(sandbox, key);
    must(status < 500, `a token request is answered with ${status}`);
    const token = json?.access_token ?? json?.data?.access_token;
    if (typeof token !== 'string') continue;
    must((await echo(sandbox, token)).status < 500, 'a call with a token is not answered');
  }
}

const kept = ({ clientId, clientSecret, owners, profile }: Sandbox) =>
  JSON.stringify([clientId, clientSecret, owners, profile]);

export const stateFiles: Target<{ edits: Edit[]; cut: { at: number; cut: number; put: string } | undefined }> = {
  name: 'state files of the sandbox',
  inputs: fc.record({ edits, cut: cuts }),
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'fuzz-'));
    const file = join(folder, 'state.json');
    const first = await startSandbox({ stateFile: file, owners: 3, seed: 1 });
    first.rotateClientSecret({ overlapMs: 60_000 });
    for (const key of first.accessKeys) await askToken(first, key);
    await first.close();
    const whole = readFileSync(file, 'utf8');
    return {
      async check({ edits: all, cut }) {
        let text = edited(whole, all);
        const from = (cut?.at ?? 0) % text.length;
        if (cut) text = text.slice(0, from) + cut.put + text.slice(from + cut.cut);
        writeFileSync(file, text);
        const sandbox = await started(file);
        if (!sandbox) return;
        let before: string;
        try {
          before = kept(sandbox);
          await mustWork(sandbox);
        } finally {
          await sandbox.close();
        }
        const again = await started(file);
        must(again !== undefined, 'it does not start again with what it wrote');
        const after = kept(again);
        await again.close();
        must(after === before, 'a restart changes what it holds');
      },
      close: async () => rmSync(folder, { recursive: true }),
    };
  },
};
