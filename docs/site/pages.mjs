/** Where the files of the project are on the site. */

import { join } from 'node:path/posix';

/** Pages with another name than their file; SECURITY.md stands beside docs/security.md. */
const RENAMED = { README: '', SECURITY: 'security-policy' };
const PAGE = /^(?:docs\/)?(.+)\.md$/;

/**
 * The place on the site that a link of a page in this folder leads to; undefined if the file is no part of it.
 *
 * @param href as written: `../CHANGELOG.md#100`, `examples/worker.mjs`, `https://nodejs.org`
 */
export function linkTo(href, folder) {
  if (/^([a-z]+:|#)/.test(href)) return href;
  const [path, anchor] = href.split('#');
  const file = join(folder, path);
  const [, page] = PAGE.exec(file) ?? [];
  if (page === undefined) return undefined;
  return `/${RENAMED[page] ?? page}${anchor === undefined ? '' : `#${anchor}`}`;
}

/** The groups and pages that `docs/all-pages.md` lists. */
export function sidebarOf(allPages) {
  return allPages
    .trim()
    .split(/\n\n+/)
    .slice(1)
    .map((group) => {
      const [, text] = /^\*\*(.+?)\*\*/.exec(group);
      const links = [...group.matchAll(/\[([^\]]+)\]\(([^)]+)\)/g)];
      const items = links.map(([, name, href]) => ({ text: name.replaceAll('`', ''), link: linkTo(href, 'docs') }));
      return { text, collapsed: false, items: items.filter(({ link }) => link !== undefined) };
    });
}
