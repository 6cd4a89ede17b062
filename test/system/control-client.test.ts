import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openapiDocument } from '../../src/sandbox/control/openapi.ts';
import { OPERATIONS } from '../../src/sandbox/control/operations.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/index.ts';
import { ROOT } from '../helpers/source-files.ts';
import { askToken } from '../sandbox/client.ts';

/** A client of the control plane, with the types that openapi-typescript makes of its document. */
const CLIENT = `
import createClient from 'openapi-fetch';
import type { components, paths } from './control-plane.ts';

export async function use(baseUrl: string) {
  const control = createClient<paths>({ baseUrl });

  const rule = { kind: 'status', status: 503, when: { next: 2 } } as const;
  const added = await control.POST('/api/faults', { body: rule });
  const fault: string | undefined = added.data?.id;

  const { data: clock } = await control.POST('/api/clock', { body: { advanceMs: 1000, frozen: true } });
  const nowMs: number | undefined = clock?.nowMs;

  const failed = await control.GET('/api/requests', { params: { query: { outcome: 'server_error', limit: 10 } } });
  const owners: (string | undefined)[] | undefined = failed.data?.map(({ owner }) => owner);

  const { error } = await control.GET('/api/owners/{id}', { params: { path: { id: 'nobody' } } });
  const message: string | undefined = error?.message;

  const verdict: components['schemas']['ScenarioVerdict']['findings'] = [];

  // @ts-expect-error: there is no such path
  void (() => control.GET('/api/fault'));
  // @ts-expect-error: the body needs a number
  void (() => control.POST('/api/clock', { body: { advanceMs: '1000' } }));
  // @ts-expect-error: no fault of this kind has a status
  void (() => control.POST('/api/faults', { body: { kind: 'silence', status: 503 } }));
  // @ts-expect-error: an answer has no such member
  void (() => clock?.nowS);

  return { fault, nowMs, owners, message, verdict };
}
`;

let sandbox: Sandbox;
// Inside the project, where the packages are found.
const folder = mkdtempSync(join(ROOT, 'node_modules/.control-client-'));

beforeAll(async () => {
  sandbox = await startSandbox({ owners: 2 });
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await sandbox.close();
});

it('a typed client is generated from the OpenAPI document, refuses wrong calls, and works', {
  timeout: 60_000,
}, async () => {
  const types = astToString(await openapiTS(JSON.stringify(openapiDocument(OPERATIONS))));
  writeFileSync(join(folder, 'control-plane.ts'), types);
  const client = join(folder, 'client.ts');
  writeFileSync(client, CLIENT);
  const options: ts.CompilerOptions = {
    strict: true,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    target: ts.ScriptTarget.ES2022,
    allowImportingTsExtensions: true,
    noEmit: true,
    skipLibCheck: true,
    types: [],
  };
  const errors = ts.getPreEmitDiagnostics(ts.createProgram([client], options));
  expect(errors.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '))).toEqual([]);

  const script = join(folder, 'client.mjs');
  writeFileSync(script, ts.transpileModule(CLIENT, { compilerOptions: { ...options, noEmit: false } }).outputText);
  sandbox.faults.add({ kind: 'status', status: 500, when: { next: 1 } });
  await askToken(sandbox, sandbox.accessKeys[1]);
  const { use } = (await import(pathToFileURL(script).href)) as { use(url: string): Promise<object> };
  expect(await use(sandbox.portalUrl)).toEqual({
    fault: sandbox.faults.list()[1]?.id,
    nowMs: sandbox.clock.now(),
    owners: ['owner-002'],
    message: 'there is no owner nobody',
    verdict: [],
  });
});
