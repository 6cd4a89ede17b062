/** The files in which everything is decided, by name. */
export const MUTATED = ['slot', 'gate', 'pauses', 'turns', 'expiry'];
