import { describe, expect, it } from 'vitest';
import { timeOf, withLostConnection } from '../../src/page-engine/page-clock.ts';

describe('the time of a server on a page', () => {
  const model = { clock: { nowMs: 5000, frozen: false, seenAtMs: 100 } };

  it('runs on with the page’s own clock between frames, unless it is frozen', () => {
    expect(timeOf(model, 350)).toBe(5250);
    expect(timeOf({ clock: { ...model.clock, frozen: true } }, 350)).toBe(5000);
  });

  it('stands still while the connection is lost', () => {
    const lost = withLostConnection(model, 300);
    expect(timeOf(lost, 9000)).toBe(5200);
    expect(timeOf(withLostConnection(lost, 900), 9000)).toBe(5200);
  });
});
