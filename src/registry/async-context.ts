import { AsyncResource } from 'node:async_hooks';

/** The async context in which it was created, for code that runs later. */
export class AsyncContext extends AsyncResource {
  /** Keeps no process alive. Jest's `--detectOpenHandles` asks this, and reports resources that do not answer. */
  hasRef(): boolean {
    return false;
  }
}
