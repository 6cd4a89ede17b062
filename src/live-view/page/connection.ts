/** The event stream, and the search. */

import type { Found, Frame, Search } from '../frames.ts';
import { Model } from './model.ts';

export type Status = 'connecting' | 'live' | 'silent' | 'lost' | 'refused';

const RETRY_MS = 2_000;
/** A stream that has not begun by then is buffered somewhere. */
const SILENT_MS = 5_000;

/**
 * Follows the stream while the page is visible. The browser connects again by itself, except after an answer that is no
 * stream, such as a 403 when the session has ended.
 */
export class Connection {
  readonly model = new Model();
  status: Status = 'connecting';
  #source: EventSource | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  readonly #changed: () => void;

  constructor(changed: () => void) {
    this.#changed = changed;
  }

  /** Call it when the page becomes visible or hidden: nothing is recorded for a page that nobody sees. */
  show(visible: boolean): void {
    clearTimeout(this.#retry);
    clearTimeout(this.#silence);
    this.#source?.close();
    this.#source = undefined;
    if (visible) this.#follow();
  }

  #follow(): void {
    const source = new EventSource('events');
    this.#source = source;
    this.#silence = setTimeout(() => this.#say('silent'), SILENT_MS);
    source.addEventListener('message', ({ data }: MessageEvent<string>) => {
      this.model.take(JSON.parse(data) as Frame, performance.now());
      this.#say('live');
    });
    source.addEventListener('error', () => {
      this.#say('lost');
      if (source.readyState === EventSource.CLOSED) void this.#ask();
    });
  }

  async #ask(): Promise<void> {
    const answer = await fetch('events', { method: 'HEAD' }).catch(() => undefined);
    if (answer?.status === 401 || answer?.status === 403) this.#say('refused');
    this.#retry = setTimeout(() => this.show(document.visibilityState === 'visible'), RETRY_MS);
  }

  #say(status: Status): void {
    clearTimeout(this.#silence);
    this.status = status;
    this.#changed();
  }
}

/** Throws if there is no answer. */
export async function search(wanted: Search): Promise<Found> {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch('search', { method: 'POST', headers, body: JSON.stringify(wanted) });
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as Found;
}
