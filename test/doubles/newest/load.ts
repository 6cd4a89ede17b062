/** Imports a library of this folder's own `package.json`, or else of the root's. */
export const load = (name: string) => import(/* @vite-ignore */ name);
