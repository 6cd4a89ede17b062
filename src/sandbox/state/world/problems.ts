/** Mistakes of the sandbox's caller, in messages that quote no secret. The control plane passes them on. */

/** A name that does not exist. */
export class NotFound extends Error {
  override readonly name = 'NotFound';
}

/** A request that cannot be carried out as given. */
export class BadRequest extends Error {
  override readonly name = 'BadRequest';
}

/** Whether an error describes a mistake of the caller: one of these, or of an option check. */
export function isCallerError(error: unknown): error is Error {
  if (error instanceof NotFound || error instanceof BadRequest) return true;
  return error instanceof Error && (error as { code?: unknown }).code === 'invalid_options';
}
