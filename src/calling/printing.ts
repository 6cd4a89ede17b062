/**
 * Keeps tokens out of logs. Node's requests hold the headers as they were sent, its TLS sockets those of the request that
 * opened them, and both are reachable from what HTTP clients return and throw.
 */

import { inspect } from 'node:util';

/** Makes an object print as its class name under `inspect`, `%o`, JSON and pino. */
export function printNameOnly(object: unknown): void {
  if (typeof object !== 'object' || object === null) return;
  const value = () => `[${object.constructor?.name ?? 'Object'}]`;
  for (const method of [inspect.custom, 'toJSON']) define(object, method, value);
}

/**
 * Prints one of Node's requests and its socket by their class names. pino logs a request as if it were a response, by
 * `getHeaders()`, which then leaves out the headers of these names.
 */
export function hideRequest(request: unknown, names: Iterable<string>): void {
  const { socket, getHeaders } = (request ?? {}) as { socket?: unknown; getHeaders?: () => object };
  printNameOnly(request);
  printNameOnly(socket);
  if (typeof getHeaders !== 'function') return;
  const none = Object.fromEntries([...names].map((name) => [name, undefined]));
  const value = () => ({ ...getHeaders.call(request), ...none });
  define(request as object, 'getHeaders', value);
}

/** Not enumerable, so that it does not print itself. A frozen object stays unchanged. */
function define(object: object, name: PropertyKey, value: unknown): void {
  Reflect.defineProperty(object, name, { value, configurable: true, writable: true });
}
