import { bounds } from './bounds.mjs';
import { failures } from './failures.mjs';
import { fleet } from './fleet.mjs';
import { flow } from './flow.mjs';
import { lifetimes } from './lifetimes.mjs';
import { reports } from './reports.mjs';
import { secrets } from './secrets.mjs';
import { sharing } from './sharing.mjs';

/**
 * - `title` says what happens, `good` what is expected, and `criterion` both in one line;
 * - `run(scene)` plays it and gives `{ good, figure }`;
 * - `idle`: it mostly waits, so several are played side by side; `fastest`: good only within this factor of the fastest;
 * - `concerns`: the parts that decide the result; where one of them is the adapter's own code, the result is the adapter's;
 * - `whyMissed`: the reason if ours misses it;
 * - `judgeOutput(result, output)` sees what was written to the console.
 */
export const scenes = [...sharing, ...lifetimes, ...failures, ...reports, ...secrets, ...bounds, ...fleet, ...flow];
