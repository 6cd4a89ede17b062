/** A placeholder: in the package and in tests, `page-engine/bundle.ts` puts the built page in its place. */

export const script = "document.querySelector('#live-view').textContent = 'The page is not built: run npm run build.';";

export const style = '';

/** Of this package. */
export const version = 'unknown';
