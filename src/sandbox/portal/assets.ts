import { script, style } from './built-page.ts';

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M2 4h12M2 8h8M2 12h10' " +
  "stroke='%230a7cba' stroke-width='2'/%3E%3C/svg%3E";

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Token sandbox</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="/portal.css">
<script type="module" src="/portal.js"></script>
</head>
<body>
<div id="portal"><main><h1>Token sandbox</h1>
<p>This page needs JavaScript. Its REST API works without: see docs/sandbox.md.</p></main>
</div>
</body>
</html>
`;

/** One file of the portal. */
export interface PortalAsset {
  readonly type: string;
  readonly body: string;
}

/** The portal's files by path; nothing else is served. */
export const PORTAL_ASSETS: ReadonlyMap<string, PortalAsset> = new Map([
  ['/', { type: 'text/html; charset=utf-8', body: PAGE }],
  ['/portal.js', { type: 'text/javascript; charset=utf-8', body: script }],
  ['/portal.css', { type: 'text/css; charset=utf-8', body: style }],
]);
