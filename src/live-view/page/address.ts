/**
 * What a link to the page may say, after `#`, which no browser sends: `owner`, `cause`, `window` in seconds, `until` in epoch
 * milliseconds, `request`, `registry`, and `time=utc`. What is typed into the search is never put there, because a key may be pasted into
 * the wrong box.
 */
export type Address = Readonly<
  Partial<Record<'owner' | 'cause' | 'window' | 'until' | 'request' | 'registry' | 'time', string>>
>;

/** Changes to the address. An undefined value removes a part. */
export type Changes = { readonly [K in keyof Address]: string | undefined };

export const addressOf = (hash: string): Address => Object.fromEntries(new URLSearchParams(hash.replace(/^#/, '')));

export function changedHash(hash: string, changes: Changes): string {
  const given = Object.entries({ ...addressOf(hash), ...changes }).filter(([, value]) => value !== undefined);
  return `#${new URLSearchParams(given as [string, string][])}`;
}
