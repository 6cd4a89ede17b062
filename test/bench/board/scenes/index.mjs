import { flow } from './flow.mjs';

/**
 * - `title` says what happens and `good` what is expected;
 * - `run(scene)` plays it and gives `{ good, figure }`;
 * - `idle`: it mostly waits, so several are played side by side; `fastest`: good only within this factor of the fastest.
 */
export const scenes = [...flow];
