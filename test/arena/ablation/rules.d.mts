/** A change of the sources, with the text that it replaces. */
interface Patch {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

export const RULES: readonly { readonly name: string; readonly patches: readonly Patch[] }[];

interface Constant {
  readonly name: string;
  readonly value: string;
  readonly halved: Patch;
  readonly doubled: Patch;
}

export function constantsOf(file: string, source: string): Constant[];
