/**
 * Reads properties of objects that others made, such as options, without those of `Object.prototype`: a dependency with a
 * prototype pollution defect lets a request add properties there, which every object then seems to have.
 */

/**
 * A property of the object itself, or of its class, such as an accessor. Undefined if only `Object.prototype` has it.
 */
export function property(from: object, name: string): unknown {
  if (name in Object.prototype && !Object.hasOwn(from, name)) return undefined;
  return (from as Record<string, unknown>)[name];
}
