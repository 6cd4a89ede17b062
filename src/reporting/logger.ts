/** The loggers that a registry accepts, and how it calls them. */

import { hasMethods, type OptionRule } from '../option-check.ts';

/**
 * Writes one line.
 *
 * @example
 * ```ts
 * const print: LogFunction = (fields, message) => console.log(message, fields);
 * ```
 */
export type LogFunction = (fields: object, message: string) => void;

/**
 * A pino logger, or any other with these methods. They are called with the fields first, as pino and bunyan take them,
 * or with the message first if the logger also has a `log` method, as `console` and winston do.
 *
 * @example
 * ```ts
 * const lines: string[] = [];
 * const line: LogFunction = (fields, message) => void lines.push(`${message} ${JSON.stringify(fields)}`);
 * const logger: Logger = { debug: line, info: line, warn: line };
 * const source = new TokenEndpoint({ baseUrl, clientId, clientSecret });
 * await new OwnerTokenRegistry({ source, logger }).getToken('a wrong key').catch(() => {});
 * console.log(lines.some((text) => text.startsWith('token requests paused'))); // → true
 * ```
 */
export interface Logger {
  /** Every token request and its outcome. */
  debug: LogFunction;
  /** Recoveries, rejections and the closing of the registry. */
  info: LogFunction;
  /** Failures that stop requests, and warnings. */
  warn: LogFunction;
  /** Failures that need a person. Default: `warn`. */
  error?: LogFunction;
  /** Called before a line is composed, as in pino and winston. Default: every level is enabled. */
  isLevelEnabled?(level: string): boolean;
}

/**
 * A level for a logger that the registry creates itself: a pino logger to standard output, or, in a bundle without pino, a
 * writer of the same lines.
 *
 * @example
 * ```ts
 * const logger: Level = process.env.NODE_ENV === 'production' ? 'info' : 'silent';
 * ```
 */
export type Level = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';
const LEVELS: readonly string[] = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** The option `logger`. */
export const aLogger: OptionRule = {
  passes: (value) => (typeof value === 'string' ? LEVELS.includes(value) : hasMethods(value, 'debug', 'info', 'warn')),
  expected: `a logger with debug, info and warn, or one of ${LEVELS.join(', ')}`,
};

/** The option `name`, which is in every log line. */
export const aName: OptionRule = {
  passes: (value) => typeof value === 'string' && /^.{1,100}$/.test(value),
  expected: 'a name of 1 to 100 characters',
};

/** The levels that are used. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** A kind of log line, with the names of its fields. */
export interface LogLine<Field extends string> {
  readonly level: LogLevel;
  readonly message: string;
  /** Exists only in the type: the names of the fields. */
  readonly field?: Field;
}

export function logLine<Field extends string = never>(level: LogLevel, message: string): LogLine<Field> {
  return { level, message };
}

/** The fields that have a name in OpenTelemetry's semantic conventions, or a different one in our metrics and spans. */
const CONVENTIONAL: Readonly<Record<string, string>> = {
  code: 'error.type',
  message: 'error.message',
  status: 'http.response.status_code',
  address: 'server.address',
  port: 'server.port',
  reason: 'owner_token.request.reason',
  failureScope: 'owner_token.scope',
};

/**
 * The name of a field in the log: `error.type`, `owner_token.retry_at`. It is the same as in spans and metrics, and no
 * logger or collector reserves it.
 *
 * @see {@link https://opentelemetry.io/docs/specs/semconv/registry/attributes/ OpenTelemetry attributes}
 */
export function logField(name: string): string {
  return CONVENTIONAL[name] ?? `owner_token.${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
}

/** The given logger, or a new one for a level; undefined for `silent`. */
export function loggerFor(logger: Logger | Level | undefined): Logger | undefined {
  if (logger === 'silent') return undefined;
  return typeof logger === 'string' ? createLogger(logger) : logger;
}

/** Whether the logger writes lines of this level; true if it does not say. */
export function isEnabled(logger: Logger, level: LogLevel): boolean {
  return logger.isLevelEnabled?.(level) !== false;
}

/** Writes one line. Fields that are undefined are left out, and the others renamed by {@link logField}. */
export function writeLine(logger: Logger, level: LogLevel, fields: object, message: string): void {
  const known = Object.entries(fields).filter(([, value]) => value !== undefined);
  const named = Object.fromEntries(known.map(([name, value]) => [logField(name), value]));
  const args = (hasMethods(logger, 'log') ? [message, named] : [named, message]) as Parameters<LogFunction>;
  const method = level === 'error' && !logger.error ? 'warn' : level;
  const returned: unknown = logger[method]?.(...args);
  if (returned instanceof Promise) returned.catch(() => {});
}

/**
 * A pino logger to standard output or, where pino cannot be loaded, one that writes the same lines. A bundled application may
 * lack pino, and not every bundler can bundle it, so `require` is hidden from bundlers, which would fail or warn.
 */
function createLogger(level: Level): Logger {
  try {
    // Some bundlers leave `import.meta.url` undefined, and some runtimes have no `node:module`.
    const { createRequire } = process.getBuiltinModule('node:module');
    const { pino } = createRequire(import.meta.url)('pino') as typeof import('pino');
    return pino({ name: NAME, level });
  } catch {
    return createJsonLogger(level);
  }
}

const NAME = 'owner-token-registry';

/** Writes lines as pino does. */
function createJsonLogger(level: Level): Logger {
  // Some runtimes have no `node:os`.
  const os = process.getBuiltinModule('node:os') as typeof import('node:os') | undefined;
  const shared = { pid: process.pid, hostname: os?.hostname(), name: NAME };
  const { log } = standardOutput();
  const lineOf = (number: number) => (fields: object, msg: string) =>
    log(JSON.stringify({ level: number, time: Date.now(), ...shared, ...fields, msg }));
  return {
    debug: lineOf(20),
    info: lineOf(30),
    warn: lineOf(40),
    error: lineOf(50),
    isLevelEnabled: (other) => LEVELS.indexOf(other) >= LEVELS.indexOf(level),
  };
}

/** A new console, because AWS Lambda and test runners decorate the global one. That is used where a runtime has no other. */
function standardOutput(): Pick<Console, 'log'> {
  try {
    const { Console } = process.getBuiltinModule('node:console');
    return new Console(process.stdout);
  } catch {
    return globalThis.console;
  }
}
