/** The process that `inProcess` starts. */

// Of a library that has given up on a promise; whoever awaits its result gets the failure.
process.on('unhandledRejection', () => {});

const [, , module, name, argument] = process.argv;
const { [name]: run } = await import(module);
try {
  process.send({ result: await run(JSON.parse(argument)) }, () => process.exit());
} catch (error) {
  process.send({ failure: error.stack }, () => process.exit());
}
