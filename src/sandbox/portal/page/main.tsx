import { render } from 'preact';
import { App } from './app.tsx';
import { connect } from './connection.ts';

const home = document.getElementById('portal');
if (home) {
  const connection = connect();
  home.textContent = '';
  render(<App connection={connection} />, home);
  connection.start();
}
