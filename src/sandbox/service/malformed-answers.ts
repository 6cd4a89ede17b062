import type { Answer } from './http-io.ts';

interface UsualBody {
  access_token: string;
  token_type: string;
  expires_in: number;
}

interface MalformedAnswer {
  readonly body: (usual: UsualBody) => string;
  /** The token is usable even though another field is malformed. */
  readonly usable?: true;
  readonly type?: string;
}

const json = (make: (usual: UsualBody) => unknown): MalformedAnswer => ({
  body: (usual) => JSON.stringify(make(usual)),
});
const usableJson = (changes: object): MalformedAnswer => ({
  body: (usual) => JSON.stringify({ ...usual, ...changes }),
  usable: true,
});

/** Answers with status 200 and an unusable or dangerous body. Each of them has broken a real client. */
export const MALFORMED_ANSWERS: readonly MalformedAnswer[] = Object.freeze([
  json(() => ({})),
  json(() => null),
  json((usual) => [usual]),
  { body: () => '' },
  { body: () => '<!doctype html><title>Sign in</title>', type: 'text/html' },
  { body: (usual) => `\ufeff${JSON.stringify(usual)}` },
  { body: (usual) => JSON.stringify(usual).slice(0, -9) },
  json(() => ({ error: 'server_error' })),
  json((usual) => ({ ...usual, access_token: '' })),
  json((usual) => ({ ...usual, access_token: 12345 })),
  json((usual) => ({ ...usual, access_token: [usual.access_token] })),
  json((usual) => ({ ...usual, access_token: `${usual.access_token}\r\nx-injected: 1` })),
  json((usual) => ({ ...usual, access_token: 'x'.repeat(1_000_000) })),
  json((usual) => ({ ...usual, token_type: 'Bearer\r\nx-injected: 1' })),
  { body: (usual) => `{"__proto__":${JSON.stringify(usual)}}` },
  { body: () => `${'['.repeat(20_000)}${']'.repeat(20_000)}` },
  { body: (usual) => `{"access_token":"sbx_first",${JSON.stringify(usual).slice(1)}`, usable: true },
  usableJson({ expires_in: 0 }),
  usableJson({ expires_in: -5 }),
  usableJson({ expires_in: 1e20 }),
  usableJson({ expires_in: 'abc' }),
  usableJson({ expires_in: null }),
  usableJson({ expires_in: {} }),
  usableJson({ expires_in: true }),
  usableJson({ expires_in: '3600.5' }),
]);

/** The malformed answer with this number; they repeat in order. */
export function malformedAnswer(usual: UsualBody, turn: number): { answer: Answer; usable: boolean } {
  const {
    body,
    usable = false,
    type = 'application/json',
  } = MALFORMED_ANSWERS[turn % MALFORMED_ANSWERS.length] as MalformedAnswer;
  return { answer: { status: 200, headers: { 'content-type': type }, body: body(usual) }, usable };
}
