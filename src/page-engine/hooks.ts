import { useEffect, useState } from 'preact/hooks';
import type { Connection, Snapshot } from './connection.ts';
import type { Clocked } from './page-clock.ts';

/** What a connection shows, whenever that changes. The root element says whether it is alive. */
export function useSnapshot<State, Model extends Clocked, View extends object>(
  connection: Connection<State, Model, View>,
): Snapshot<Model> {
  const [snapshot, setSnapshot] = useState(connection.snapshot);
  useEffect(() => connection.subscribe(setSnapshot), [connection]);
  const { status } = snapshot;
  useEffect(() => {
    document.documentElement.dataset.connection = status === 'live' || status === 'connecting' ? status : 'lost';
  }, [status]);
  return snapshot;
}

/** The page's own clock, updated at an interval. */
export function useTick(everyMs: number): number {
  const [nowMs, setNowMs] = useState(() => performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNowMs(performance.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return nowMs;
}
