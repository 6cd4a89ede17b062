import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { OwnerTokenErrorCode } from '../../src/errors/owner-token-error.ts';
import { adviceFor } from '../../src/live-view/advice.ts';

/** Of docs/errors.md: each code with what to do, without markup. */
const rows = [
  ...readFileSync('docs/errors.md', 'utf8').matchAll(/^\| `(\w+)` \| [^|]+\| (?:yes|no) \|[^|]+\| (.+) \|$/gm),
];
const advised = rows.map(
  ([, code, todo]) => [code as OwnerTokenErrorCode, (todo as string).replaceAll('`', '')] as const,
);

/** Codes of a call of the caller's own, which pause nobody. */
const CALLERS = ['origin_refused', 'insecure_url', 'invalid_options', 'invalid_access_key', 'closed'];

it('the advice of the live view is that of the errors page', () => {
  const shown = advised.filter(([code]) => !CALLERS.includes(code));
  expect(shown).toHaveLength(10);
  for (const [code, todo] of shown) expect([code, adviceFor(code).todo.replaceAll('’', "'")]).toEqual([code, todo]);
});

it('the advice of the live view leads to a heading of the runbooks', () => {
  const runbooks = readFileSync('docs/runbooks.md', 'utf8').toLowerCase();
  for (const [code] of advised) expect(runbooks).toContain(`## ${adviceFor(code).runbook}`);
  expect(adviceFor('closed')).toMatchObject({ runbook: '', todo: expect.stringContaining('the token source') });
});
