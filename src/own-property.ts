/**
 * Reads properties of objects that others made, such as options, without those of `Object.prototype`: a dependency with a
 * prototype pollution defect lets a request add properties there, which every object then seems to have.
 */

/** Several properties, each as {@link property} reads it. */
export function properties(from: object, ...names: readonly string[]): unknown[] {
  const values: unknown[] = [];
  for (const name of names) {
    const isInherited = name in Object.prototype && !Object.hasOwn(from, name);
    values.push(isInherited ? undefined : (from as Record<string, unknown>)[name]);
  }
  return values;
}

/**
 * A property of the object itself, or of its class, such as an accessor. Undefined if only `Object.prototype` has it.
 */
export function property(from: object, name: string): unknown {
  return properties(from, name)[0];
}
