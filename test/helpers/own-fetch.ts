/** Node's `fetch` with Node's own parser: a test that imports `undici` before the first call would put the package's in its place. */
await fetch('data:,');
