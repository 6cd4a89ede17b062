export const WORKLOADS: readonly string[];
/** Text by path in `docs`. */
export function docsOf(run: unknown): Readonly<Record<string, string>>;
