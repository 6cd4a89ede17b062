/** How a benchmark ends if it was asked for what it cannot do. */

/** Runs what publishes a run; if it throws, nothing was published. */
export function orRefuse(publish) {
  try {
    publish();
  } catch (error) {
    refuse(`nothing was published: ${error.message}`);
  }
}

export function refuse(why) {
  console.error(why);
  process.exit(2);
}
