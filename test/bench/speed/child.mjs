/** The process that `inProcess` starts. */

const [, , module, name, argument] = process.argv;
const { [name]: run } = await import(module);
process.send(await run(JSON.parse(argument)), () => process.exit());
