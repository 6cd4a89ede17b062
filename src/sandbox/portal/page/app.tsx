import type { ComponentType } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { useSnapshot } from '../../../page-engine/hooks.ts';
import { ConnectionStatus, STATUS_WORDS } from '../../../page-engine/parts.tsx';
import { addressOf } from './address.ts';
import { ClockPanel } from './clock-panel.tsx';
import { ConnectionContext, type PortalConnection } from './connection.ts';
import { Faults } from './faults.tsx';
import { useKeptFocus } from './kept-focus.ts';
import { Live } from './live.tsx';
import type { Model } from './model.ts';
import { Owners } from './owners.tsx';
import { Say } from './parts.tsx';
import { ResponseShape } from './response-shape.tsx';
import { Scenarios } from './scenarios.tsx';

type Screen = ComponentType<{ model: Model }>;

const SCREENS: readonly (readonly [path: string, title: string, screen: Screen])[] = [
  ['live', 'Live', Live],
  ['owners', 'Owners', Owners],
  ['faults', 'Faults', Faults],
  ['response', 'Response shape', ResponseShape],
  ['scenarios', 'Scenarios', Scenarios],
];

/** Long enough to read two lines. */
const SAID_MS = 8000;

export function App({ connection }: { connection: PortalConnection }) {
  const { model, status, problem } = useSnapshot(connection);
  const [said, say] = useSaying();
  const [path, title, Screen] = useScreen();
  useKeptFocus();
  return (
    <ConnectionContext.Provider value={connection}>
      <Say.Provider value={say}>
        <a class="skip" href="#main">
          Skip to content
        </a>
        <header>
          <p class="name">Token sandbox</p>
          <nav aria-label="Screens">
            <ul>
              {SCREENS.map(([to, word]) => (
                <li key={to}>
                  <a href={`#/${to}`} aria-current={to === path ? 'page' : undefined}>
                    {word}
                  </a>
                </li>
              ))}
            </ul>
          </nav>
          <ConnectionStatus status={status} />
        </header>
        <p class="said" role="status">
          {said}
        </p>
        <main id="main" tabIndex={-1}>
          <h1>{title}</h1>
          {model ? <Screen model={model} /> : <p>{problem ?? (status === 'lost' ? STATUS_WORDS.lost : 'Loading…')}</p>}
        </main>
        {model && <ClockPanel model={model} />}
      </Say.Provider>
    </ConnectionContext.Provider>
  );
}

/** The last announcement: read by screen readers, and shown for a while. */
function useSaying(): [said: string, say: (text: string) => void] {
  const [said, setSaid] = useState('');
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const say = useCallback((text: string) => {
    clearTimeout(timer.current);
    // Cleared first, so that the same text is announced again.
    setSaid('');
    timer.current = setTimeout(() => {
      setSaid(text);
      timer.current = setTimeout(() => setSaid(''), SAID_MS);
    }, 50);
  }, []);
  return [said, say];
}

const screenAt = (hash: string) => SCREENS.find(([path]) => addressOf(hash).screen === path) ?? SCREENS[0];

/** The screen that the address names. A change moves the focus to it. */
function useScreen() {
  const [screen, setScreen] = useState(() => screenAt(location.hash));
  const first = useRef(true);
  useEffect(() => {
    const follow = ({ oldURL }: HashChangeEvent) => {
      if (location.hash === '#main') skipToMain(oldURL);
      else setScreen(screenAt(location.hash));
    };
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  useEffect(() => {
    document.title = `${screen?.[1]} · Token sandbox`;
    if (!first.current) document.getElementById('main')?.focus({ preventScroll: true });
    first.current = false;
  }, [screen]);
  return screen as (typeof SCREENS)[number];
}

/** The skip link is not a screen: the address returns to the one shown. */
function skipToMain(from: string): void {
  history.replaceState(null, '', from);
  document.getElementById('main')?.focus();
}
