/** A placeholder: in the package and in tests, `page-engine/bundle.ts` puts the built page in its place. */

export const script = "document.querySelector('#portal').textContent = 'The portal is not built: run npm run build.';";

export const style = '';
