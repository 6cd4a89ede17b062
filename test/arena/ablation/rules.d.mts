/** A change of the sources, with the text that it replaces. */
export interface Change {
  readonly name: string;
  readonly patches: readonly { readonly file: string; readonly from: string; readonly to: string }[];
}

export const RULES: readonly Change[];
export function constantsOf(file: string, source: string): Change[];
