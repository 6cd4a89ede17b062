/** The process that `inProcess` starts. */

// Some libraries leave a rejected promise unhandled. The caller gets the failure all the same.
process.on('unhandledRejection', () => {});

const [, , module, name, argument] = process.argv;
const { [name]: run } = await import(module);
try {
  process.send({ result: await run(JSON.parse(argument)) }, () => process.exit());
} catch (error) {
  process.send({ failure: error.stack }, () => process.exit());
}
