/** Text by path. */
export function docsOf(run: unknown): Readonly<Record<string, string>>;
