/**
 * Compresses the event stream of a page with Brotli, whose window holds the states that were sent before: so a whole state takes
 * little more than what has changed in it.
 */

import { constants, createBrotliCompress } from 'node:zlib';

/** Longer than two states of a busy page, of which a window of this size keeps the one before. */
const WINDOW_BITS = 20;
/** The next one takes twice the time. */
const QUALITY = 4;

/** Sends events to a page. */
export interface Writer {
  send(text: string): void;
  end(): void;
}

/** Of a browser that takes no Brotli, because it takes none without TLS, the texts as they are. */
export const encodingOf = (accepted: string | undefined): { 'content-encoding'?: 'br' } =>
  /\bbr\b(?!;q=0)/.test(accepted ?? '') ? { 'content-encoding': 'br' } : {};

export function writerOf(accepted: string | undefined, write: (bytes: string | Uint8Array) => void): Writer {
  if (!encodingOf(accepted)['content-encoding']) return { send: write, end: () => {} };
  const { BROTLI_PARAM_LGWIN, BROTLI_PARAM_QUALITY, BROTLI_OPERATION_FLUSH } = constants;
  const params = { [BROTLI_PARAM_LGWIN]: WINDOW_BITS, [BROTLI_PARAM_QUALITY]: QUALITY };
  const stream = createBrotliCompress({ params }).on('data', write);
  const send = (text: string) => {
    stream.write(text);
    stream.flush(BROTLI_OPERATION_FLUSH);
  };
  return { send, end: () => void stream.destroy() };
}
