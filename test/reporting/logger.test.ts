import { Console } from 'node:console';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { describe, expect, it, vi } from 'vitest';
import winston from 'winston';
import { ScrubbedCause } from '../../src/errors/scrubbed-cause.ts';
import {
  isEnabled,
  type Level,
  type Logger,
  type LogLevel,
  logField,
  loggerFor,
  writeLine,
} from '../../src/reporting/logger.ts';
import { LOG_FIELDS } from '../helpers/log-lines.ts';

const FIELDS = { event: 'pause.began', code: 'client_refused', message: 'wrong secret', durationMs: 120 };

/** Writes lines to this logger, or to a new one of this level. */
function writerFor(given: Logger | Level) {
  const logger = loggerFor(given) as Logger;
  return (level: LogLevel, fields: object, message: string) => {
    if (isEnabled(logger, level)) writeLine(logger, level, fields, message);
  };
}

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
    expect(lines).toEqual([
      [
        {
          'owner_token.event': 'pause.began',
          'error.type': 'client_refused',
          'error.message': 'wrong secret',
          'owner_token.duration_ms': 120,
        },
        'paused',
      ],
    ]);
  });

  it('that rejects is ignored', async () => {
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

  it.each(['debug', 'info', 'warn', 'error', 'fatal'] as const)(
    'created from the level %s where pino cannot be loaded writes what pino would',
    (level) => {
      const { getBuiltinModule } = process;
      const hidden = vi.spyOn(process, 'getBuiltinModule').mockImplementation(((id: string) => {
        if (id === 'node:module') throw new Error('Cannot find module pino');
        return getBuiltinModule(id);
      }) as typeof getBuiltinModule);
      const written: string[] = [];
      vi.spyOn(process.stdout, 'write').mockImplementation((line) => written.push(String(line)) > 0);
      const expected = collecting();
      const loggers = [writerFor(level), writerFor(pino({ name: 'owner-token-registry', level }, expected.stream))];
      const fields = { ...FIELDS, status: undefined, cause: ScrubbedCause.of(new RangeError('secret')), hook: 'a"b\n' };
      for (const write of loggers) {
        for (const at of ['debug', 'info', 'warn', 'error'] as const) write(at, fields, `at ${at}`);
      }
      const withoutTime = (text: string) => text.replace(/"time":\d+/g, '"time":0');
      expect(hidden).toHaveBeenCalledWith('node:module');
      expect(withoutTime(written.join(''))).toBe(withoutTime(expected.written()));
      expect(written.every((line) => /"time":1\d{12},/.test(line))).toBe(true);
    },
  );

  it('writes to the global console in a runtime that has no other, such as workerd', () => {
    vi.spyOn(process, 'getBuiltinModule').mockImplementation(() => undefined as never);
    vi.spyOn(process, 'stdout', 'get').mockImplementation(() => {
      throw new Error('The Console method is not implemented');
    });
    const log = vi.spyOn(globalThis.console, 'log').mockImplementation(() => {});
    writerFor('info')('info', FIELDS, 'token requests resumed');
    expect(log.mock.calls).toEqual([[expect.stringContaining('"msg":"token requests resumed"')]]);
  });

  // What a logger made from a level writes is tested by `secrets.test.ts`, in a process of its own.
  it.each([undefined, 'silent'] as const)('may be %s', (logger) => {
    expect(loggerFor(logger)).toBeUndefined();
  });
});

/** What each of these adds to a line or reads in it, by its documentation, as top-level fields. */
const RESERVED: Readonly<Record<string, string>> = {
  pino: 'level time pid hostname name msg message v err req res responseTime caller',
  winston: 'level message timestamp label ms stack splat cause metadata service format',
  bunyan: 'v level name hostname pid time msg src err req res client_req client_res',
  Datadog: `
    host hostname source ddsource ddtags service status message msg trace_id span_id dd date timestamp @timestamp
    Timestamp _timestamp eventTime published_date syslog level severity duration env version evt usr logger
    network error.kind error.stack`,
  // Objects of the Elastic Common Schema: a text in their place makes Elasticsearch refuse the line.
  Elastic: `
    @timestamp agent as client cloud code_signature container data_stream destination device dll dns ecs elf email
    error event faas file gen_ai geo group hash host http interface labels log macho message network observer
    orchestrator organization os package pe process registry related risk rule server service source span tags
    threat tls trace transaction url user user_agent vlan volume vulnerability x509`,
  'OpenTelemetry logs': 'Timestamp TraceId SpanId SeverityText SeverityNumber Body EventName code',
  Loki: `
    level detected_level app cluster container env filename host instance job namespace node pod service
    service_name stream msg message err caller __error__`,
  'Google Cloud': `
    severity message msg log time timestamp timestampSeconds timestampNanos httpRequest labels trace spanId
    insertId operation sourceLocation resource logName @type serviceContext context exception stack_trace
    textPayload jsonPayload`,
  CloudWatch: `
    @timestamp @message @logStream @log @ingestionTime @requestId @duration @type @entity timestamp level
    requestId message errorType errorMessage stackTrace tenantId traceId time type record _aws`,
  Logstash: '@timestamp @version @metadata message host path tags type event',
  Splunk: 'event fields host index source sourcetype time punct linecount timestamp',
};
const wordsOf = (text: string) => text.trim().split(/\s+/);

/** What the Elastic Common Schema and OpenTelemetry's conventions define alike, as what we use it for. */
const SHARED = ['error.type', 'error.message', 'server.address', 'server.port', 'http.response.status_code'];

describe('the names of fields', () => {
  const names = LOG_FIELDS.map(logField);
  const collides = (name: string, reserved: string) =>
    name === reserved || reserved.startsWith(`${name}.`) || (name.startsWith(`${reserved}.`) && !SHARED.includes(name));

  it.each(Object.entries(RESERVED))('collide with none that %s reserves', (_, reserved) => {
    expect(names.filter((name) => wordsOf(reserved).some((each) => collides(name, each)))).toEqual([]);
  });

  it('would collide without a prefix, as the sources use them', () => {
    const reserved = Object.values(RESERVED).flatMap(wordsOf);
    const colliding = LOG_FIELDS.filter((name) => reserved.some((each) => collides(name, each)));
    expect(colliding).toEqual(expect.arrayContaining(['event', 'registry', 'code', 'message', 'status']));
  });

  it('do not collide with each other, nor nest in each other', () => {
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => names.some((other) => other.startsWith(`${name}.`)))).toEqual([]);
  });

  it('are in a namespace of their own, or in OpenTelemetry’s conventions', () => {
    expect(names.filter((name) => !/^owner_token\.[a-z_.]+$/.test(name)).sort()).toEqual([...SHARED].sort());
  });

  it('appear once in a line of a pino whose message is at "message"', () => {
    const { stream, written } = collecting();
    writerFor(pino({ messageKey: 'message' }, stream))('warn', FIELDS, 'token requests paused');
    expect(written().match(/"message":/g)).toHaveLength(1);
    expect(JSON.parse(written())).toMatchObject({ message: 'token requests paused', 'error.message': 'wrong secret' });
  });

  it('leave the text of a winston line as it is', async () => {
    const { stream, written } = collecting();
    const transports = [new winston.transports.Stream({ stream })];
    writerFor(winston.createLogger({ transports }))('warn', FIELDS, 'token requests paused');
    await new Promise((resolve) => setImmediate(resolve));
    expect(JSON.parse(written())).toMatchObject({ message: 'token requests paused', 'error.message': 'wrong secret' });
  });
});
