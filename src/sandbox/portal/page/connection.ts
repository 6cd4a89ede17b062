import { createContext } from 'preact';
import { Connection } from '../../../page-engine/connection.ts';
import { ask, Refused } from './api.ts';
import { type Model, modelOf, type SentState } from './model.ts';

/** The part of the picture that is shown. */
export interface View {
  readonly windowMs: number;
  /** The end of a window of the past. */
  readonly untilMs?: number | undefined;
  readonly search?: string;
  readonly owner?: string;
  /** Ids of requests of the past, with commas between them. */
  readonly requests?: string | undefined;
}

export type PortalConnection = Connection<SentState, Model, View>;

export const connect = (): PortalConnection =>
  new Connection<SentState, Model, View>({ address: '/api/events', modelOf, why }, { windowMs: 60_000 });

async function why() {
  const problem = await ask('GET', '/api/clock').then(
    () => undefined,
    (error: unknown) => (error instanceof Refused ? error.message : undefined),
  );
  return { problem };
}

export const ConnectionContext = createContext<PortalConnection | undefined>(undefined);
