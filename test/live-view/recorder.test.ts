import { channel } from 'node:diagnostics_channel';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MAX_REQUESTS, Recorder } from '../../src/live-view/recorder.ts';
import type { PauseMessage, RejectionMessage, RequestMessage } from '../../src/reporting/channel-messages.ts';

let nowMs: number;
let recorder: Recorder;

beforeEach(() => {
  nowMs = 0;
  recorder = new Recorder(new Set(['shown']), () => nowMs);
  recorder.start();
});
afterEach(() => recorder.stop());

describe('outages', () => {
  const publish = (message: Partial<PauseMessage>) =>
    channel('owner-token-registry:pause').publish({ registry: 'shown', ...message });

  it('of one scope are recorded one after another, and end without those of the other scope', () => {
    publish({ scope: 'endpoint', action: 'paused' });
    publish({ scope: 'client', action: 'paused' });
    nowMs = 10;
    publish({ scope: 'endpoint', action: 'paused' });
    publish({ scope: 'endpoint', action: 'lifted' });
    nowMs = 20;
    publish({ scope: 'endpoint', action: 'paused' });
    expect(recorder.outages).toMatchObject([
      { scope: 'endpoint', fromMs: 0, toMs: 10 },
      { scope: 'client', fromMs: 0 },
      { scope: 'endpoint', fromMs: 20 },
    ]);
    expect(recorder.outages.map(({ toMs }) => toMs)).toEqual([10, undefined, undefined]);
  });

  it('are kept up to a hundred, the newest ones', () => {
    for (nowMs = 1; nowMs <= 101; nowMs++) {
      publish({ scope: 'endpoint', action: 'paused' });
      publish({ scope: 'endpoint', action: 'lifted' });
    }
    expect([recorder.outages.length, recorder.outages[0]?.fromMs, recorder.outages.at(-1)?.fromMs]).toEqual([
      100, 2, 101,
    ]);
  });

  it('of owners are not recorded', () => {
    publish({ scope: 'owner', action: 'paused' });
    expect(recorder.outages).toEqual([]);
  });
});

it('a request that was dropped for newer ones does not come back when its token is rejected', () => {
  const request = (token: string) => {
    const message = { registry: 'shown', owner: 'owner', reason: 'absent', queuedMs: 0 } as RequestMessage;
    channel('tracing:owner-token-registry:request:start').publish(message);
    channel('tracing:owner-token-registry:request:asyncEnd').publish(Object.assign(message, { token }));
  };
  const reject = (token: string) =>
    channel('owner-token-registry:rejection').publish({ token, wasHeld: true } as RejectionMessage);
  for (let each = 0; each <= MAX_REQUESTS; each++) request(`token-${each}`);
  recorder.takeChanges();
  reject('token-0');
  expect(recorder.takeChanges()).toEqual([]);
  reject('token-1');
  expect(recorder.takeChanges()).toMatchObject([{ token: 'token-1', rejectedAtMs: 0 }]);
});
