/**
 * Reads properties of foreign objects, such as options and responses, without those of `Object.prototype`: with a prototype
 * pollution defect in a dependency, a request can add properties there, which every object then seems to have.
 */

/** A property of an object itself, or of its class, such as an accessor; undefined if `from` is neither an object nor a function. */
export function property(from: unknown, name: string): unknown {
  if ((typeof from !== 'object' && typeof from !== 'function') || from === null) return undefined;
  return name in Object.prototype && !isOfClass(from, name) ? undefined : (from as Record<string, unknown>)[name];
}

/** Whether an object, or a class between it and `Object.prototype`, has the property. */
function isOfClass(from: object, name: string): boolean {
  for (let at: object | null = from; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    if (Object.hasOwn(at, name)) return true;
  }
  return false;
}

/**
 * An object from which several properties can be read, each as {@link property} reads it: `from` itself, or a copy if
 * `Object.prototype` has one of the names.
 */
export function properties<K extends string>(from: unknown, names: readonly K[]): { readonly [name in K]?: unknown } {
  if (typeof from !== 'object' || from === null) return copyOf(from, names);
  for (let at = 0; at < names.length; at++) {
    if ((names[at] as K) in Object.prototype) return copyOf(from, names);
  }
  return from;
}

function copyOf(from: unknown, names: readonly string[]): object {
  return Object.fromEntries(names.map((name) => [name, property(from, name)]));
}
