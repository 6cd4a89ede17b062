/** What a caller of the sandbox got wrong, in words that quote no secret. The control plane passes them on. */

/** Something is named that does not exist. */
export class NotFound extends Error {
  override readonly name = 'NotFound';
}

/** Something cannot be done as it was asked. */
export class BadRequest extends Error {
  override readonly name = 'BadRequest';
}

/** Whether an error says what its causer got wrong, and nothing else: one of these, or of an option check. */
export function isCallersProblem(error: unknown): error is Error {
  if (error instanceof NotFound || error instanceof BadRequest) return true;
  return error instanceof Error && (error as { code?: unknown }).code === 'invalid_options';
}
