/**
 * What Next's edge runtime loads in place of each entry point. Throws while `module.exports` is computed: bundlers report
 * a module without exports in words of their own, before anything of it runs.
 */
module.exports = (() => {
  throw new Error(
    'owner-token-registry does not run in the edge runtime, which lacks Node.js modules that it needs. Remove ' +
      "`export const runtime = 'edge'` from this route. Cloudflare Workers: set the nodejs_compat flag and the fetch option.",
  );
})();
