/**
 * The page's script and style sheet. They are made by `bundle.ts`, which puts a module of the same shape in the
 * place of this one: in the package it reads the files beside it, in tests it holds their text. Unbuilt, there is none.
 */

export const script = (): string =>
  "document.querySelector('#portal').textContent = 'The portal is made when the package is built.';";

export const style = (): string => '';
