/** The cause of an error without its message, which may quote a secret. */

import { properties } from '../own-property.ts';

const NAMES = ['name', 'code', 'cause', 'message', 'stack'] as const;
const MAX_CAUSE_DEPTH = 4;
const MAX_FRAMES = 8;
/** How much of a stack is read for them. */
const MAX_FRAMES_LENGTH = 4096;

/**
 * The safe part of an underlying error: enough to locate it, without its message.
 *
 * @example
 * ```ts
 * const unreachable = new TokenEndpoint({ baseUrl: 'https://127.0.0.1:1', clientId, clientSecret });
 * const error = await unreachable.requestToken(accessKey).catch((thrown: OwnerTokenError) => thrown);
 * if (isOwnerTokenError(error)) {
 *   const cause: ScrubbedCause | undefined = error.cause;
 *   console.log(cause?.code); // → ECONNREFUSED
 * }
 * ```
 */
export class ScrubbedCause {
  readonly #scrubbed = true;
  /** Name of its class, such as `TypeError`; `Error` for an unusual one. */
  readonly name: string;
  /** A system or library code such as `ECONNRESET`. */
  readonly code?: string;
  /** Where it was thrown: stack frames without the message. */
  readonly frames?: readonly string[];
  /** Its own cause. */
  readonly cause?: ScrubbedCause;

  private constructor(thrown: unknown, depth: number) {
    const { name, code, cause: inner, message, stack } = properties(thrown, NAMES);
    const frames = framesOf(stack, message);
    // Kept only in their usual shapes: anything else could be a secret.
    this.name = typeof name === 'string' && /^([A-Z][A-Za-z]{0,40})?(Error|Exception)$/.test(name) ? name : 'Error';
    if (typeof code === 'string' && /^[A-Z][A-Z0-9_]{1,40}$/.test(code)) this.code = code;
    if (frames.length > 0) this.frames = frames;
    if (typeof inner === 'object' && inner !== null && depth < MAX_CAUSE_DEPTH) {
      this.cause = ScrubbedCause.of(inner, depth + 1);
    }
  }

  /**
   * Scrubs anything thrown, and its causes. Returns unchanged what this copy of the package has scrubbed. A private field
   * marks it, because a brand can be forged and would let unscrubbed fields through.
   *
   * @internal
   */
  static of(thrown: unknown, depth = 1): ScrubbedCause {
    if (typeof thrown === 'object' && thrown !== null && #scrubbed in thrown) return thrown;
    try {
      return new ScrubbedCause(thrown, depth);
    } catch {
      // An accessor of the thrown value threw.
      return new ScrubbedCause(undefined, depth);
    }
  }
}

/**
 * The frames of a stack: the lines after its header, which is a class name and the message. A line of the message may
 * look like a frame, so a stack with any other header, such as that of a message changed later, has none.
 */
function framesOf(stack: unknown, message: unknown): readonly string[] {
  if (typeof stack !== 'string' || typeof message !== 'string') return [];
  const name = /^[\w$.[\] -]{1,100}/.exec(stack)?.[0] ?? '';
  const header = message === '' ? `${name}\n` : `${name}: ${message}\n`;
  if (name === '' || !stack.startsWith(header)) return [];
  return stack
    .slice(header.length, header.length + MAX_FRAMES_LENGTH)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => /^at .{1,300}:\d+:\d+\)?$/.test(line))
    .slice(0, MAX_FRAMES);
}
