/**
 * What the library emits: log lines, errors, channel messages. Every secret of a world contains the same mark, so that one
 * search finds any of them.
 */

import { channel, tracingChannel } from 'node:diagnostics_channel';
import { inspect } from 'node:util';
import { AccessToken, OwnerTokenError } from '../../src/index.ts';

/** In every access key, token and client secret. */
export const MARK = 'S3CR3T';

/** One object in this many is serialized in every possible way, because that is slow. */
const THOROUGH_EVERY = 64;

export class Emissions {
  readonly #fail: (what: string) => void;
  #seen = 0;

  constructor(fail: (what: string) => void) {
    this.#fail = fail;
  }

  /** Fields of a log line or a message of a channel. */
  fields(from: string, fields: object): void {
    for (const value of Object.values(fields)) {
      if (typeof value === 'string') this.text(from, value);
      else if (typeof value === 'object' && value !== null) this.value(from, value);
    }
  }

  text(from: string, text: string): void {
    if (text.includes(MARK)) this.#fail(`a secret was emitted by ${from}: ${text.slice(0, 200)}`);
  }

  /** An error or any other object that leaves the library. */
  value(from: string, value: object): void {
    if (value instanceof OwnerTokenError) {
      this.text(from, value.message);
      if (value.owner !== undefined) this.text(from, value.owner);
    }
    if (this.#seen++ % THOROUGH_EVERY !== 0) return;
    this.text(`${from}, inspected`, inspect(value, { showHidden: true, depth: 8 }));
    this.text(`${from} as JSON`, JSON.stringify(value) ?? '');
    this.text(`${from} as a string`, String(value));
    if (value instanceof Error) this.text(`the stack of ${from}`, String(value.stack));
    if (value instanceof AccessToken) this.text(`${from} with all its properties`, inspect({ ...value }));
  }

  /** Subscribes to every channel. Returns the function that ends this. */
  hearChannels(react: () => void): () => void {
    const hear = (message: unknown, name: string | symbol) => {
      this.fields(`channel ${String(name)}`, message as object);
      react();
    };
    const plain = ['lookup', 'rejection', 'pause'].map((name) => channel(`owner-token-registry:${name}`));
    const traced = tracingChannel('owner-token-registry:request');
    const channels = [...plain, traced.start, traced.end, traced.asyncStart, traced.asyncEnd, traced.error];
    for (const each of channels) each.subscribe(hear);
    return () => {
      for (const each of channels) each.unsubscribe(hear);
    };
  }
}
