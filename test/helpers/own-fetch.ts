/** Loads Node's own `fetch`: a test that imports `undici` first would have it use the package's dispatcher. */
await fetch('data:,');
