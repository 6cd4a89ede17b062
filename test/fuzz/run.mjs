/** Fuzzes in plain Node, from a bundle made here of the sources as they are; see `npm run fuzz -- --help`. */

import { bundled } from '../helpers/bundle.mjs';

const { main } = await bundled('test/fuzz/main.ts');
process.exit(await main(process.argv.slice(2)));
