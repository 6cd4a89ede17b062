/**
 * The website: the Markdown files of the project as they are, with search, a sidebar and dark mode. Links and headings
 * keep the form that GitHub and npm understand, and become those of the site here. A dead link fails the build.
 */

import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { defineConfig } from 'vitepress';
import { linkTo, sidebarOf } from '../pages.mjs';

const ROOT = join(import.meta.dirname, '../../..');
const { description } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

/** As GitHub makes the anchor of a heading, so that one link works in both places. */
const anchorOf = (heading) =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{Letter}\p{Number}\p{Mark}_\- ]/gu, '')
    .replaceAll(' ', '-');

export default defineConfig({
  title: 'owner-token-registry',
  description,
  lang: 'en',
  head: [['link', { rel: 'icon', href: 'data:,' }]], // none; without this, browsers ask for /favicon.ico and log a 404
  cleanUrls: true,
  srcDir: '../..',
  outDir: '../../reports/site',
  srcExclude: ['{docs/site,src,test,reports,dist,.ci}/**'],
  rewrites: { 'README.md': 'index.md', 'SECURITY.md': 'security-policy.md', 'docs/:page(.*)': ':page' },
  vite: { plugins: [vueOfThisPackage()] },
  markdown: { anchor: { slugify: anchorOf }, config: useSiteLinks },
  themeConfig: {
    search: { provider: 'local', options: { _render: indexed } },
    outline: [2, 3],
    sidebar: sidebarOf(readFileSync(join(ROOT, 'docs/all-pages.md'), 'utf8')),
    nav: [
      { text: 'Getting started', link: '/getting-started' },
      { text: 'Reference', link: '/api' },
      { text: 'Changelog', link: '/CHANGELOG' },
    ],
  },
});

/** What is for those who work on the library, and would come before Errors and Resilience in the search. */
const UNINDEXED = /^(?:docs\/)?internals\//;

/** What the search index takes of a page. */
async function indexed(source, env, markdown) {
  const html = await markdown.render(source, env);
  return UNINDEXED.test(relative(ROOT, env.path)) || UNINDEXED.test(env.relativePath) ? '' : html;
}

/** The pages are outside this package, so what they compile to would not find Vue. */
function vueOfThisPackage() {
  const here = join(import.meta.dirname, 'config.mjs');
  return {
    name: 'vue-of-this-package',
    enforce: 'pre',
    resolveId(id, importer, options) {
      if (!/^vue(\/|$)/.test(id)) return undefined;
      // What renders the pages in Node is written into this package, where Node finds Vue by its name.
      if (options.ssr) return { id, external: true };
      return importer?.includes('.md') ? this.resolve(id, here, { ...options, skipSelf: true }) : undefined;
    },
  };
}

function useSiteLinks(markdown) {
  markdown.core.ruler.push('site-links', ({ tokens, env }) => {
    const page = relative(ROOT, env.realPath ?? env.path);
    for (const link of tokens.flatMap(({ children }) => children ?? []).filter(({ type }) => type === 'link_open')) {
      const href = linkTo(link.attrGet('href'), dirname(page));
      // Source files are no part of the site: the text stays, without a link.
      if (href === undefined) link.attrs = [['class', 'source-file']];
      else link.attrSet('href', href);
    }
  });
  const fence = markdown.renderer.rules.fence;
  markdown.renderer.rules.fence = (tokens, at, ...rest) =>
    tokens[at].info === 'mermaid'
      ? `<MermaidDiagram code="${encodeURIComponent(tokens[at].content)}" />`
      : fence(tokens, at, ...rest);
}
