/** The portal's files, by path. All are held in memory: what is not here is not served. */
export function portalAssets(): Map<string, { type: string; body: string | Uint8Array }> {
  const page =
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Sandbox</title>' +
    '<main><h1>Sandbox</h1><p>The control plane is up: <a href="/openapi.json">its interface</a>.</p></main></html>';
  return new Map([['/', { type: 'text/html; charset=utf-8', body: page }]]);
}
