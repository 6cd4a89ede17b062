/**
 * The Next.js edge runtime loads this file instead of each entry point. It throws while computing `module.exports`,
 * because bundlers reject a module without exports with an error of their own before running it.
 */
module.exports = (() => {
  throw new Error(
    'owner-token-registry does not run in the edge runtime, which lacks Node.js modules that it needs. Remove ' +
      "`export const runtime = 'edge'` from this route. Cloudflare Workers: set the nodejs_compat flag and the fetch option.",
  );
})();
