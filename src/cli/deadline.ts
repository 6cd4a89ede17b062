/** An operation took longer than it may. */
export class TimedOut extends Error {
  readonly code = 'ETIMEDOUT';
  constructor(ms: number) {
    super(`no response within ${ms / 1000} s`);
  }
}

/**
 * Runs `operation` with a signal that aborts after `ms`, and when `outer` aborts. The returned promise rejects at that
 * moment, even if `operation` ignores its signal.
 */
export async function withDeadline<T>(
  ms: number,
  outer: AbortSignal | undefined,
  operation: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const ended = new AbortController();
  const onAbort = (): void => ended.abort(outer?.reason);
  if (outer?.aborted) onAbort();
  outer?.addEventListener('abort', onAbort, { once: true });
  const timer = setTimeout(() => ended.abort(new TimedOut(ms)), ms);
  try {
    const aborted = new Promise<never>((_, reject) => {
      if (ended.signal.aborted) reject(ended.signal.reason);
      ended.signal.addEventListener('abort', () => reject(ended.signal.reason), { once: true });
    });
    return await Promise.race([aborted, operation(ended.signal)]);
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener('abort', onAbort);
  }
}
