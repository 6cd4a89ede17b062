const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath d='M2 4h12M2 8h8M2 12h10' " +
  "stroke='%230a7cba' stroke-width='2'/%3E%3C/svg%3E";

/** The page. Its addresses are relative, because it may be mounted at any path. */
export const pageHtml = (): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Owner tokens</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="live-view.css">
<script type="module" src="live-view.js"></script>
</head>
<body>
<div id="live-view"><main><h1>Owner tokens</h1><p>This page needs JavaScript.</p></main></div>
</body>
</html>
`;
