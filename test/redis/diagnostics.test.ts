import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { expect, it, onTestFinished } from 'vitest';
import { SharingDiagnostics, type SharingMessage } from '../../src/redis/diagnostics.ts';
import { shortNames } from '../helpers/log-lines.ts';

it('every unreadable value is on the channel, but only the 1st, 10th, 100th … is in the log', () => {
  const logged: unknown[] = [];
  const ignored = () => {};
  const warn = (fields: object) => void logged.push(shortNames(fields).count);
  const diagnostics = new SharingDiagnostics('crm', { debug: ignored, info: ignored, warn, error: ignored });
  const heard: unknown[] = [];
  const listen = (message: unknown) => void heard.push((message as SharingMessage).count);
  subscribe('owner-token-registry:sharing', listen);
  onTestFinished(() => void unsubscribe('owner-token-registry:sharing', listen));
  for (let count = 0; count < 1_001; count++) diagnostics.count('unreadable');
  expect(logged).toEqual([1, 10, 100, 1_000]);
  expect(heard).toHaveLength(1_001);
});
