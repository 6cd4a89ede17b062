import { expect, it } from 'vitest';
import { afterAcceptance, afterArrival, afterRejection, type RejectionState } from '../../src/failures/rejections.ts';
import { RejectedOwners } from '../../src/registry/rejected-owners.ts';
import { recordRejection, type Slot } from '../../src/registry/slot.ts';
import { at } from '../helpers/instants.ts';
import { seeded } from '../helpers/seeded.mjs';
import { createSlot } from '../helpers/slots.ts';

/** Owners whose slots change as calls and requests would change them. */
function stage() {
  const owners = new RejectedOwners();
  const changed = (slot: Slot, state: RejectionState | undefined) => {
    recordRejection(slot, state);
    owners.note(slot);
  };
  return {
    owners,
    reject(slot: Slot, nowMs: number): void {
      const { rejection } = slot.history;
      changed(slot, afterRejection(rejection, { now: at(nowMs), ageMs: 1, hasAccepts: true, capMs: 300_000, slot }));
    },
    renew(slot: Slot, nowMs: number): void {
      changed(slot, afterArrival(slot.history.rejection, undefined, nowMs, nowMs));
    },
    accept(slot: Slot, nowMs: number): void {
      const { rejection } = slot.history;
      changed(slot, rejection && afterAcceptance(rejection, nowMs));
    },
  };
}

/** An owner whose token and its replacement were rejected at this time: the replacement is kept for ten seconds. */
function rejected({ reject, renew }: ReturnType<typeof stage>, owner: string, nowMs: number): Slot {
  const slot = createSlot(`owner_${owner}`);
  reject(slot, nowMs);
  renew(slot, nowMs);
  reject(slot, nowMs);
  return slot;
}

const namesAt = (owners: RejectedOwners, nowMs: number) => [...owners.rejected(nowMs)].map(({ owner }) => owner);

it('an owner counts as rejected while its token is kept and replaced again, since the beginning of the streak', () => {
  const scene = stage();
  const slot = rejected(scene, 'a', 1_000);
  scene.reject(slot, 12_000);
  expect(scene.owners.stat(60_000)).toEqual({ owners: 1, sinceMs: 1_000 });
  scene.renew(slot, 60_000);
  expect(scene.owners.stat(69_999)).toEqual({ owners: 1, sinceMs: 1_000 });
  scene.reject(slot, 61_000);
  // Kept for twenty seconds now.
  expect(scene.owners.stat(89_999)).toEqual({ owners: 1, sinceMs: 1_000 });
});

it('an owner that nobody calls counts as rejected until ten seconds after its token was to be kept', () => {
  const scene = stage();
  const kept = rejected(scene, 'a', 1_000);
  const renewed = rejected(scene, 'b', 1_000);
  scene.renew(renewed, 4_000);
  const countAt = (nowMs: number) => [scene.owners.stat(nowMs)?.owners, namesAt(scene.owners, nowMs).length];
  expect([13_999, 14_000, 20_999, 21_000].map(countAt)).toEqual([
    [2, 2],
    [1, 1],
    [1, 1],
    [undefined, 0],
  ]);
  // Its next rejection shows that nothing has changed.
  scene.reject(kept, 50_000);
  expect(scene.owners.stat(50_000)).toEqual({ owners: 1, sinceMs: 1_000 });
  expect([...scene.owners.withStreak()]).toHaveLength(2);
});

it('the count of rejected owners is that of the list after 5,000 random events', () => {
  const scene = stage();
  const random = seeded(7);
  const slots = Array.from({ length: 30 }, (_, index) => createSlot(`owner_${index}`));
  let most = 0;
  for (let step = 0, nowMs = 0; step < 5_000; step++) {
    nowMs += Math.floor(random() * 400);
    const slot = slots[Math.floor(random() * 30)] as Slot;
    const draw = random();
    if (draw < 0.6) scene.reject(slot, nowMs);
    else if (draw < 0.95) scene.renew(slot, nowMs);
    else if (draw < 0.98) scene.accept(slot, nowMs);
    else scene.owners.delete(slot);
    const listed = slots.filter((each) => scene.owners.isRejected(each, nowMs)).length;
    if (step % 3 === 0) expect(namesAt(scene.owners, nowMs)).toHaveLength(listed);
    if (step % 2 === 0) expect(scene.owners.stat(nowMs)?.owners ?? 0).toBe(listed);
    most = Math.max(most, listed);
  }
  expect(most).toBeGreaterThan(5);
});
