import type { ControlError } from '../../api-types.ts';

/** What the control plane said no to, in words that are made to be shown. */
export class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Nothing here takes long; what takes longer than the longest try hangs. */
const TIMEOUT_MS = 15_000;

/** Asks the control plane. Rejects with {@link Refused}, or otherwise where it cannot be reached. */
export async function ask<T>(method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object): Promise<T> {
  const writes = method === 'POST' || method === 'PATCH';
  const answer = await fetch(path, {
    method,
    signal: AbortSignal.timeout(TIMEOUT_MS),
    ...(writes && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body ?? {}) }),
  });
  const json: unknown = await answer.json();
  if (!answer.ok) throw new Refused(answer.status, (json as ControlError).message);
  return json as T;
}

export function tellFailure(error: unknown): string {
  return error instanceof Refused ? error.message : 'The sandbox cannot be reached.';
}
