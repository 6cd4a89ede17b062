/** Mistakes of the sandbox's caller, in messages that quote no secret. The control plane passes them on. */

/** A name that does not exist. */
export class NotFound extends Error {
  override readonly name = 'NotFound';
}

/** A request that cannot be carried out as given. */
export class BadRequest extends Error {
  override readonly name = 'BadRequest';
}

/**
 * Why a state file cannot be used. `state_unwritable`: the file or its folder cannot be read or written.
 * `state_not_a_file`: the path is a folder or a device. `state_damaged`: the content is not a state. `state_locked`:
 * another sandbox uses the file. `state_conflict`: an option contradicts the file.
 *
 * @example
 * ```ts
 * const inUse: StateFileCode = 'state_locked';
 * ```
 */
export type StateFileCode =
  | 'state_unwritable'
  | 'state_not_a_file'
  | 'state_damaged'
  | 'state_locked'
  | 'state_conflict';

/**
 * A state file that cannot be used. The message names the path, the problem and the next step.
 *
 * @example
 * ```ts
 * await startSandbox({ stateFile: '.' }).catch((error: unknown) => {
 *   if (error instanceof StateFileError) console.log(error.code); // → state_not_a_file
 * });
 * ```
 */
export class StateFileError extends Error {
  /** Always `StateFileError`. */
  override readonly name = 'StateFileError';
  /** Why it cannot be used. */
  readonly code: StateFileCode;
  /** Path of the file. */
  readonly path: string;

  /** The sandbox makes these. */
  constructor(code: StateFileCode, path: string, problem: string, cause?: unknown) {
    super(`state file ${path}: ${problem}`, cause === undefined ? {} : { cause });
    this.code = code;
    this.path = path;
  }
}

/** Whether an error describes a mistake of the caller: one of these, or of an option check. */
export function isCallersProblem(error: unknown): error is Error {
  if (error instanceof NotFound || error instanceof BadRequest) return true;
  return error instanceof Error && (error as { code?: unknown }).code === 'invalid_options';
}
