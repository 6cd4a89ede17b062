import { OwnerTokenError } from '../../index.ts';
import { TimedOut } from '../deadline.ts';
import { isNotTls, NOT_TLS } from '../diagnosis.ts';
import type { Result } from './report.ts';

const ADVICE_BY_CODE: Readonly<Record<string, string>> = {
  ENOTFOUND: 'The name does not resolve. Is it spelled correctly, and can this machine reach its name server?',
  EAI_AGAIN: 'The name server does not answer. Is this machine connected?',
  ECONNREFUSED: 'Nothing is listening on this port. Is it the right one?',
  ECONNRESET: 'The connection was reset. Does a firewall or proxy block it?',
};

/** Describes a failure outside the token endpoint by its code. Never quotes the message of a foreign error. */
export function foreignFailure(error: unknown): Result {
  if (error instanceof TimedOut) return { status: 'failed', text: error.message, facts: { code: error.code } };
  const cause = new OwnerTokenError('source_failed', 'scrubbed', { cause: error }).cause;
  const code = cause?.code ?? cause?.cause?.code ?? cause?.name ?? 'Error';
  const advice = isNotTls(code) ? NOT_TLS : ADVICE_BY_CODE[code];
  return { status: 'failed', text: `failed: ${code}`, ...(advice && { advice }), facts: { code } };
}
