import { Console } from 'node:console';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { describe, expect, it, vi } from 'vitest';
import winston from 'winston';
import { isEnabled, type Logger, writerFor } from '../src/logger.ts';

const FIELDS = { event: 'pause.began', code: 'client_refused', message: 'wrong secret', durationMs: 120 };

/** What is written to a stream. */
function collecting(): { stream: Writable; written(): string } {
  const chunks: string[] = [];
  const stream = new Writable({
    write(chunk, _encoding, done) {
      chunks.push(String(chunk));
      done();
    },
  });
  return { stream, written: () => chunks.join('') };
}

describe('a logger', () => {
  const KINDS: [string, (stream: Writable) => Logger][] = [
    ['pino', (stream) => pino({ level: 'debug' }, stream)],
    ['console', (stdout) => new Console({ stdout, stderr: stdout })],
    [
      'winston as JSON',
      (stream) => winston.createLogger({ level: 'debug', transports: [new winston.transports.Stream({ stream })] }),
    ],
    [
      'winston as text',
      (stream) =>
        winston.createLogger({
          level: 'debug',
          format: winston.format.simple(),
          transports: [new winston.transports.Stream({ stream })],
        }),
    ],
  ];

  it.each(KINDS)('like %s loses nothing', async (_name, make) => {
    const { stream, written } = collecting();
    const write = writerFor(make(stream));
    for (const level of ['debug', 'info', 'warn', 'error'] as const)
      write(level, FIELDS, `requests paused at ${level}`);
    await new Promise((resolve) => setImmediate(resolve));
    const lines = written().split(/(?=requests paused)/);
    expect(lines.length).toBeGreaterThanOrEqual(4);
    for (const level of ['debug', 'info', 'warn', 'error']) expect(written()).toContain(`requests paused at ${level}`);
    for (const value of Object.values(FIELDS)) expect(written().split(String(value)).length).toBeGreaterThanOrEqual(5);
  });

  it('without error() gets errors as warnings', () => {
    const lines: unknown[] = [];
    const write = writerFor({ debug() {}, info() {}, warn: (...args) => void lines.push(args) });
    write('error', FIELDS, 'paused');
    expect(lines).toEqual([[FIELDS, 'paused']]);
  });

  it('that throws, or rejects, is ignored', async () => {
    const broken = () => {
      throw new Error('no');
    };
    expect(() => writerFor({ debug: broken, info: broken, warn: broken })('warn', {}, '')).not.toThrow();
    const rejecting = () => Promise.reject(new Error('no'));
    writerFor({ debug: rejecting, info: rejecting, warn: rejecting } as unknown as Logger)('warn', {}, '');
    await new Promise((resolve) => setImmediate(resolve));
  });

  it('may use `this`, as a class of one’s own does', () => {
    class Counting {
      lines = 0;
      debug() {}
      warn() {}
      info() {
        this.lines++;
      }
    }
    const logger = new Counting();
    writerFor(logger)('info', {}, '');
    expect(logger.lines).toBe(1);
  });

  it('is created from a level, silent below it', () => {
    expect(() => writerFor('fatal')('error', FIELDS, 'not written')).not.toThrow();
  });

  it('cannot be created from a level where pino is missing, as in some bundles', async () => {
    vi.resetModules();
    vi.doMock('node:module', () => ({
      createRequire: () => () => {
        throw new Error('Cannot find module pino');
      },
    }));
    try {
      const bundled = await import('../src/logger.ts');
      expect(() => bundled.writerFor('info')).toThrow('logger: a level needs pino');
    } finally {
      vi.doUnmock('node:module');
      vi.resetModules();
    }
  });

  // What a logger made from a level writes is tested by `secrets.test.ts`, in a process of its own.
  it.each([undefined, 'silent'] as const)('may be %s', (logger) => {
    expect(() => writerFor(logger)('error', {}, '')).not.toThrow();
  });
});

describe('a level', () => {
  const nothing = () => {};
  const logger = { debug: nothing, info: nothing, warn: nothing };
  const throwing = () => {
    throw new Error('no');
  };

  it.each<[string, Parameters<typeof isEnabled>[0], boolean, boolean]>([
    ['without a logger', undefined, false, false],
    ['with the same level as logger', 'info', true, false],
    ['with a logger of another level', { ...logger, isLevelEnabled: (level) => level === 'debug' }, false, true],
    ['with a logger that does not tell', logger, true, true],
    ['with a logger that throws when it is asked', { ...logger, isLevelEnabled: throwing }, true, true],
  ])('%s: what is written', (_, target, info, debug) => {
    expect([isEnabled(target, 'info'), isEnabled(target, 'debug')]).toEqual([info, debug]);
  });
});
