/** Runs the arena in plain Node, from a bundle made here of the sources as they are; see `npm run arena -- --help`. */

import { bundled } from '../helpers/bundle.mjs';

const { main } = await bundled('test/arena/main.ts');
process.exit(await main(process.argv.slice(2), process.env.SEED));
