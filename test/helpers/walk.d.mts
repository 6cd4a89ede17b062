/** What one call did: functions entered, distinct ones, their files, moves from one file to another, and moves back. */
export interface Walk {
  readonly calls: number;
  readonly functions: number;
  readonly files: number;
  readonly moves: number;
  readonly returns: number;
}

/** Traces each kind of call once it is warm. */
export function traceWalks(): Promise<{ walks: Record<string, Walk>; entered: Record<string, string[]> }>;
