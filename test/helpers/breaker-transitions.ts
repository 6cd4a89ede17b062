import { OwnerTokenError, OwnerTokenRegistry } from '../../src/index.ts';
import { ManualClock, settle } from './manual-clock.ts';
import { ScriptedSource } from './scripted-source.ts';

/** Takes a registry's circuit through every event, and returns the transitions that its statistics showed. */
export async function breakerTransitions(): Promise<string[]> {
  const clock = new ManualClock();
  const source = new ScriptedSource();
  await using registry = new OwnerTokenRegistry({ source, clock });
  const transitions = new Set<string>();
  const state = () => {
    const { endpoint } = registry.stats().pauses;
    if (!endpoint) return 'closed';
    return endpoint.probing ? 'half_open' : 'open';
  };
  const on = async (event: string, act: () => void) => {
    const before = state();
    act();
    await settle();
    if (state() !== before) transitions.add(`${before} ${state()}: ${event}`);
  };
  let owners = 0;
  const ask = () => void registry.getToken(`owner ${owners++}`).catch(() => {});
  const fail = () => source.calls.at(-1)?.fail(new OwnerTokenError('rate_limited', 'busy', { retryAfterMs: 1_000 }));
  const succeed = () => source.calls.at(-1)?.succeed();
  const begin = async () => {
    ask();
    await settle();
  };
  const open = async () => {
    await begin();
    await on('a failure of this scope', fail);
  };
  const tryAgain = async () => {
    clock.advance(3_600_000);
    await on('the pause is over, one request becomes the trial', ask);
  };
  await open();
  await tryAgain();
  await on('the trial fails, the next pause is longer', fail);
  await tryAgain();
  await on('the trial succeeds', succeed);
  await open();
  await on('resume()', () => registry.resume());
  await open();
  await tryAgain();
  await on('resume()', () => registry.resume());
  succeed();
  return [...transitions];
}
