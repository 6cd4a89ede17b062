/** `instanceof` across copies of the package. */

/**
 * `value instanceof asked` for a class whose instances carry a brand, and for its subclasses, which rely on prototypes.
 */
export function hasInstance(asked: unknown, branded: unknown, brand: symbol, value: unknown): boolean {
  return asked === branded ? isBranded(value, brand) : Function.prototype[Symbol.hasInstance].call(asked, value);
}

/** Whether a value carries this brand. Never throws, whatever the value is. */
function isBranded(value: unknown, brand: symbol): boolean {
  try {
    return typeof value === 'object' && value !== null && brand in value;
  } catch {
    return false;
  }
}
