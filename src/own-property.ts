/**
 * Reads properties of objects that others made, such as options, without those of `Object.prototype`: a dependency with a
 * prototype pollution defect lets a request add properties there, which every object then seems to have.
 */

/** Several properties, each as {@link property} reads it. */
export function properties(from: object, ...names: string[]): unknown[] {
  // Each value replaces its name, because V8 makes room for 16 more elements in an array that grows.
  const values: unknown[] = names;
  for (let at = 0; at < names.length; at++) {
    const name = names[at] as string;
    const isInherited = name in Object.prototype && !Object.hasOwn(from, name);
    values[at] = isInherited ? undefined : (from as Record<string, unknown>)[name];
  }
  return values;
}

/**
 * A property of the object itself, or of its class, such as an accessor. Undefined if only `Object.prototype` has it.
 */
export function property(from: object, name: string): unknown {
  return properties(from, name)[0];
}
