import { render } from 'preact';
import { App } from './app.tsx';
import { Connection } from './connection.ts';

const home = document.getElementById('portal');
if (home) {
  const connection = new Connection();
  home.textContent = '';
  render(<App connection={connection} />, home);
  const show = () => connection.show(document.visibilityState === 'visible');
  document.addEventListener('visibilitychange', show);
  show();
}
