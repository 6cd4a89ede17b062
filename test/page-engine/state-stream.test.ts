import { beforeEach, describe, expect, it } from 'vitest';
import { StateStream } from '../../src/page-engine/state-stream.ts';

let stream: StateStream;
let nowMs: number;
let title: string;
let lanes: string[] | undefined;

beforeEach(() => {
  [stream, nowMs, title, lanes] = [new StateStream(), 0, 'first', ['a']];
});

const stateNow = () => ({ clock: { nowMs }, title, picture: { matching: 1, ...(lanes && { lanes }) } });

/** What a reader has been sent. */
function read(key = 'view') {
  const sent: object[] = [];
  const leave = stream.join(key, stateNow, (text) => {
    const [, data = ''] = /^event: update\ndata: (.*)\n\n$/.exec(text) ?? [];
    sent.push(JSON.parse(data) as object);
  });
  return { sent, leave };
}

describe('the stream of states', () => {
  it('sends a new reader the whole state, and again when it has changed', () => {
    const { sent } = read();
    expect(sent).toEqual([stateNow()]);
    title = 'second';
    stream.update();
    stream.update();
    expect(sent).toHaveLength(2);
  });

  it('leaves out lanes that have not changed', () => {
    const { sent } = read();
    title = 'second';
    stream.update();
    expect(sent[1]).toEqual({ clock: { nowMs: 0 }, title: 'second', picture: { matching: 1 } });
    lanes = ['b'];
    stream.update();
    expect(sent[2]).toMatchObject({ picture: { lanes: ['b'] } });
  });

  it('takes time alone for no change, and sends the state all the same before a proxy cuts a silent connection', () => {
    const { sent } = read();
    for (nowMs = 1; nowMs < 15; nowMs++) stream.update();
    expect(sent).toHaveLength(1);
    stream.update();
    expect(sent[1]).toEqual({ clock: { nowMs: 15 }, title: 'first', picture: { matching: 1 } });
  });

  it('reads the state once for all readers of one view, each of which has had all lanes', () => {
    const [first, second, other] = [read(), read(), read('other')];
    expect([stream.size, first.sent.length, second.sent.length, other.sent.length]).toEqual([3, 2, 1, 1]);
    title = 'second';
    stream.update();
    for (const { sent } of [first, second, other]) expect(sent.at(-1)).not.toHaveProperty('picture.lanes');
  });

  it('sends nothing to a reader that has left, and may have none', () => {
    const { sent, leave } = read();
    leave();
    leave();
    title = 'second';
    stream.update();
    expect([stream.size, sent.length]).toEqual([0, 1]);
  });

  it('sends lanes of its first reader although there were none', () => {
    lanes = undefined;
    expect(read().sent).toEqual([{ clock: { nowMs: 0 }, title: 'first', picture: { matching: 1, lanes: [] } }]);
  });
});
