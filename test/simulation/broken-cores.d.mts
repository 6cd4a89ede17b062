export const BROKEN_CORES: Readonly<Record<string, readonly (readonly [name: string, from: string, to: string])[]>>;
