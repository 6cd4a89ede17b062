export const RULES: Readonly<
  Record<string, readonly { readonly file: string; readonly from: string; readonly to: string }[]>
>;
