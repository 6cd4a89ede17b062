/** A placeholder for the page's script and style sheet, which `bundle.ts` puts in its place: in the package and in tests. */

export const script = "document.querySelector('#portal').textContent = 'The portal is not built: run npm run build.';";

export const style = '';
