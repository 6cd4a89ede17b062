import { type Clock, startTimer } from '../clock.ts';

/** A wait that is over after `ms`, when the signal is aborted, or when it is woken. */
export function sleep(clock: Clock, ms: number, signal: AbortSignal) {
  let wake = () => {};
  const over = new Promise<void>((resolve) => {
    if (ms <= 0 || signal.aborted) return resolve();
    wake = () => {
      cancel();
      signal.removeEventListener('abort', wake);
      resolve();
    };
    const cancel = startTimer(clock, wake, ms);
    signal.addEventListener('abort', wake, { once: true });
  });
  return { over, wake: () => wake() };
}
