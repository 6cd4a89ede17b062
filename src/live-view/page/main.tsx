import { render } from 'preact';
import { App } from './app.tsx';
import { Connection } from './connection.ts';

const home = document.getElementById('live-view');
if (home) {
  home.textContent = '';
  const connection = new Connection(() => draw());
  const draw = () => render(<App connection={connection} version={performance.now()} />, home);
  const show = () => connection.show(document.visibilityState === 'visible');
  document.addEventListener('visibilitychange', show);
  draw();
  show();
}
