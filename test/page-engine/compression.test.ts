import { once } from 'node:events';
import { constants, createBrotliDecompress } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { encodingOf, writerOf } from '../../src/page-engine/compression.ts';

const BR = 'gzip, deflate, br, zstd';

describe('the stream of a page', () => {
  it('is compressed where the browser says that it takes Brotli', () => {
    expect(encodingOf(BR)).toEqual({ 'content-encoding': 'br' });
    for (const accepted of [undefined, '', 'gzip, deflate', 'br;q=0, gzip']) expect(encodingOf(accepted)).toEqual({});
  });

  it('is sent as it is to other browsers', () => {
    const sent: unknown[] = [];
    const writer = writerOf('gzip', (text) => sent.push(text));
    writer.send('data: {}\n\n');
    writer.end();
    expect(sent).toEqual(['data: {}\n\n']);
  });

  it('sends each event at once, and a state that is nearly the same as the one before in few bytes', async () => {
    const plain = createBrotliDecompress({ flush: constants.BROTLI_OPERATION_FLUSH });
    let bytes = 0;
    const writer = writerOf(BR, (part) => {
      bytes += part.length;
      plain.write(part);
    });
    const state = (time: number) =>
      `${time} ${Array.from({ length: 20_000 }, (_, at) => Math.imul(at, 2_654_435_761) >>> 0).join()}`;
    const received = async (text: string) => {
      writer.send(text);
      let seen = '';
      while (seen.length < text.length) seen += (await once(plain, 'data'))[0];
      return seen;
    };
    expect(await received(state(1))).toBe(state(1));
    const first = bytes;
    expect(await received(state(2))).toBe(state(2));
    expect([first > 50_000, bytes - first < 1_000]).toEqual([true, true]);
    writer.end();
  });
});
