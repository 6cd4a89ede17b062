/** The time of a server, as a page that follows it knows it. Pure. */

export interface PageClock {
  /** The server's time at the moment when the page's own clock showed `seenAtMs`. */
  readonly nowMs: number;
  readonly frozen: boolean;
  readonly seenAtMs: number;
  /** By the page's own clock: when the connection was lost. What the server does since then is unknown. */
  readonly lostAtMs?: number;
}

export interface Clocked {
  readonly clock: PageClock;
}

/** The server's time at a time of the page's own clock. */
export function timeOf({ clock }: Clocked, pageMs: number): number {
  return clock.frozen ? clock.nowMs : clock.nowMs + Math.max(0, (clock.lostAtMs ?? pageMs) - clock.seenAtMs);
}

/** Whether the server's time stands still, as far as the page knows. */
export const standsStill = ({ clock }: Clocked): boolean => clock.frozen || clock.lostAtMs !== undefined;

/** The model from the moment on at which the connection was lost: its clock stands still. */
export function withLostConnection<Model extends Clocked>(model: Model, pageMs: number): Model {
  return { ...model, clock: { ...model.clock, lostAtMs: model.clock.lostAtMs ?? pageMs } };
}
