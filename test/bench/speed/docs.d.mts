/** Text by path in `docs`. */
export function docsOf(results: unknown): Readonly<Record<string, string>>;
