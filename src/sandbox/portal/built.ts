/**
 * A placeholder for the page's script and style sheet. `bundle.ts` replaces this module with one of the same shape: in the
 * package it reads the files beside it, in tests it holds their text.
 */

export const script = (): string =>
  "document.querySelector('#portal').textContent = 'The portal is not built: run npm run build.';";

export const style = (): string => '';
