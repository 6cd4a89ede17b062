import type { ControlError } from '../../control/shapes.ts';

/** A request that the control plane refused. Its message can be shown to the user. */
export class Refused extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Longer than the longest operation takes. */
const TIMEOUT_MS = 15_000;

/** Sends a request to the control plane. Rejects with {@link Refused}, or with another error if it cannot be reached. */
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
  if (!(error instanceof Refused)) return 'The sandbox cannot be reached.';
  return error.message.replace(/^request body: invalid options:\s*- /, '');
}

/** Sends a request, and resolves with what to announce then. */
export async function send(said: string, ...request: Parameters<typeof ask>): Promise<string> {
  await ask(...request);
  return said;
}
