/** The event stream, and the search. */

import { Connection } from '../../page-engine/connection.ts';
import type { Found, Search, SentFrame } from '../frames.ts';
import type { View } from '../picture-view.ts';
import { type Model, modelOf } from './model.ts';

export type LiveConnection = Connection<SentFrame, Model, View>;

export const connect = (): LiveConnection =>
  new Connection<SentFrame, Model, View>({ address: 'events', modelOf, why }, { windowMs: 60_000 });

/** A 403 once the session has ended. */
async function why() {
  const answer = await fetch('events', { method: 'HEAD' }).catch(() => undefined);
  return answer?.status === 401 || answer?.status === 403 ? { status: 'refused' as const } : {};
}

/** Throws if there is no answer. */
export async function search(wanted: Search): Promise<Found> {
  const headers = { 'content-type': 'application/json' };
  const answer = await fetch('search', { method: 'POST', headers, body: JSON.stringify(wanted) });
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()) as Found;
}
