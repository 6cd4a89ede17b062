/**
 * Every kind of fault: the types of its rules, and one table of schemas from which rule validation, the portal's form and
 * labels derive. To add a kind, add its members and its row here, and its effect in
 * `service/fault-effects.ts`.
 */

import * as v from 'valibot';
import { type FieldFacts, field, integer, maybe, oneOf, type Schema, text } from './schema.ts';

/**
 * Which requests a rule targets: for tokens, to the echo resource, or both.
 *
 * @example
 * ```ts
 * const path: FaultPath = 'echo';
 * sandbox.faults.add({ kind: 'status', status: 401, target: { path }, when: { next: 1 } });
 * ```
 */
export type FaultPath = 'token' | 'echo' | 'all';

/**
 * The members of each kind's rules, beside `kind`, `id`, `target` and `when`.
 *
 * @example
 * ```ts
 * const slow: FaultMembers['drip'] = { bytes: 10, everyMs: 50 };
 * sandbox.faults.add({ kind: 'drip', ...slow });
 * ```
 */
export interface FaultMembers {
  /** Answers with this status; the request is not processed. */
  status: {
    /** 200 to 599. */
    status: number;
    /** A string is sent as it is, anything else as JSON. Default: an OAuth error for 4xx, some HTML for 5xx. */
    body?: unknown;
    /** Added to the answer. Default: none. */
    headers?: Record<string, string>;
    /** Seconds, or the header's text. Default, on 429 with `over`: until the window ends. */
    retryAfter?: number | string;
  };
  /** Delays the correct answer. Later rules still apply. */
  latency: {
    /** Milliseconds, 0 to thirty days. */
    ms: number;
  };
  /** Refuses or resets connections. */
  refuse: object;
  /** Reads the request and never answers. */
  silence: object;
  /** Stops before or after the headers of the answer, forever or for a while. */
  stall: {
    /** Where it stops. */
    at: 'before_headers' | 'after_headers';
    /** For how many milliseconds. Default: forever. */
    ms?: number;
  };
  /** Sends the body a few bytes at a time. */
  drip: {
    /** Bytes at a time. Default: 1. */
    bytes?: number;
    /** Milliseconds between them. Default: 100. */
    everyMs?: number;
  };
  /** Closes the connection in the middle of the body, without a reset. */
  truncate: {
    /** Bytes to send. Default: half of the body. */
    keepBytes?: number;
  };
  /** Resets the connection before anything is answered, or in the middle of the body. */
  reset: {
    /** Where it resets. */
    at: 'before_headers' | 'in_body';
  };
  /** Sends bytes that are not HTTP. */
  garbage: object;
  /** Declares the body as gzip, but it is plain, cut short or corrupt. */
  wrong_gzip: {
    /** `plain`: not compressed at all; `cut`: ends early; `corrupt`: bytes are changed. Default: `plain`. */
    how?: 'plain' | 'cut' | 'corrupt';
  };
  /** Redirects to another path, or to a location of your choice. */
  redirect: {
    /** Default: 307. */
    status?: 301 | 302 | 303 | 307 | 308;
    /** Default: another path of the token plane. */
    location?: string;
  };
  /** Adds header fields to the correct answer. */
  oversized_headers: {
    /** How many bytes. Default: 100,000. */
    bytes?: number;
  };
  /** Adds white space to the correct body. */
  oversized_body: {
    /** How many bytes. Default: 10,000,000. */
    bytes?: number;
  };
  /** Issues a token of another owner, if there is one. */
  wrong_owner_token: object;
}

/**
 * What can go wrong.
 *
 * @example
 * ```ts
 * const connection: FaultKind[] = ['refuse', 'reset', 'garbage'];
 * ```
 */
export type FaultKind = keyof FaultMembers;

/**
 * What goes wrong. Delays run on the sandbox's clock: while it is frozen they last until it is advanced.
 *
 * @example
 * ```ts
 * const effect: FaultEffect = { kind: 'status', status: 503, retryAfter: 2 };
 * sandbox.faults.add({ ...effect, when: { next: 1 } });
 * ```
 */
export type FaultEffect = {
  [Kind in FaultKind]: { /** What goes wrong. */ kind: Kind } & FaultMembers[Kind];
}[FaultKind];

interface FaultKindRow<Members extends object> {
  readonly word: string;
  /** What the client sees: a sentence for the portal and the schema. */
  readonly description: string;
  /** What a rule may target. The first is the default. */
  readonly paths: readonly [FaultPath, ...FaultPath[]];
  readonly members: { readonly [Name in keyof Members]: Schema<Members[Name]> };
  /** The member whose value lists show after the word: `Error status 503`. */
  readonly shown?: keyof Members;
}

const MAX_DELAY_MS = 30 * 86_400_000;

const ANY_PATH = ['token', 'echo', 'all'] as const;

const ms = (min: number, facts: FieldFacts) =>
  field(integer(min, MAX_DELAY_MS, 'milliseconds'), { ...facts, unit: 'ms' });
const bytes = (min: number, max: number, facts: FieldFacts) =>
  maybe(field(integer(min, max, 'bytes'), { ...facts, unit: 'bytes' }));
const choice = <const Values extends readonly (string | number)[]>(label: string, values: Values) =>
  field(oneOf(values), { label, ...(values[0] !== undefined && { start: values[0] }) });

const HEADER_TEXT = text(/^[\x20-\x7e]{0,4000}$/, 'the text of a header');

/** Headers that say where an answer ends. Node throws, or sends an answer that never ends, if they contradict it. */
const FRAMING_HEADER = /^(connection|content-length|trailer|transfer-encoding)$/i;

const framingHeaderIn = (headers: object): string | undefined =>
  Object.keys(headers)
    .find((name) => FRAMING_HEADER.test(name))
    ?.toLowerCase();

const HEADER_LIST = 'expected an object of header names and values';

const HEADERS = v.pipe(
  v.record(text(/^[\w!#$%&'*+.^`|~-]{1,100}$/, 'the name of a header'), HEADER_TEXT, HEADER_LIST),
  v.check(
    (headers) => framingHeaderIn(headers) === undefined,
    ({ input }) => `expected no ${framingHeaderIn(input)}: the sandbox frames its answers itself`,
  ),
);

const BODY = v.pipe(v.unknown(), v.check(isJson, 'expected a string, or a value that JSON can represent'));

function isJson(value: unknown): boolean {
  try {
    return JSON.stringify(value) !== undefined;
  } catch {
    return false;
  }
}

export const FAULT_KINDS: { readonly [Kind in FaultKind]: FaultKindRow<FaultMembers[Kind]> } = Object.freeze({
  status: {
    word: 'Error status',
    description: 'Answers with this status; the request is not processed.',
    paths: ANY_PATH,
    shown: 'status',
    members: {
      status: field(integer(200, 599), { label: 'Status', start: 503 }),
      body: maybe(field(BODY, { label: 'Body' })),
      headers: maybe(field(HEADERS, { label: 'Headers' })),
      retryAfter: maybe(
        field(v.union([integer(0, 1e9), HEADER_TEXT], 'expected seconds, or the text of the header'), {
          label: 'Retry-After, seconds or a date',
        }),
      ),
    },
  },
  latency: {
    word: 'Latency',
    description: 'Delays the correct answer. Later rules still apply.',
    paths: ANY_PATH,
    shown: 'ms',
    members: { ms: ms(0, { label: 'Delay', start: 2000 }) },
  },
  refuse: {
    word: 'Refuse connections',
    description:
      'Targeting everything, always or by schedule: closes the port and resets open connections (ECONNREFUSED). ' +
      'The operating system answers, so such attempts cannot be counted. Otherwise: resets the connection once the request ' +
      'has arrived (ECONNRESET).',
    paths: ['all', 'token', 'echo'],
    members: {},
  },
  silence: {
    word: 'Black hole',
    description: 'Reads the request and never answers.',
    paths: ANY_PATH,
    members: {},
  },
  stall: {
    word: 'Stall',
    description: 'Stops before or after the headers of the answer, forever or for a while.',
    paths: ANY_PATH,
    shown: 'at',
    members: {
      at: choice('Where', ['before_headers', 'after_headers']),
      ms: maybe(ms(0, { label: 'Resume after (empty: never)' })),
    },
  },
  drip: {
    word: 'Slow body',
    description: 'Sends the body a few bytes at a time.',
    paths: ANY_PATH,
    members: {
      bytes: bytes(1, 1_000_000, { label: 'Bytes at a time', start: 1 }),
      everyMs: maybe(ms(1, { label: 'Interval', start: 100 })),
    },
  },
  truncate: {
    word: 'Truncate the body',
    description: 'Closes the connection in the middle of the body, without a reset.',
    paths: ANY_PATH,
    members: { keepBytes: bytes(0, 1_000_000, { label: 'Bytes to send (empty: half)' }) },
  },
  reset: {
    word: 'Reset the connection',
    description: 'Resets the connection before anything is answered, or in the middle of the body.',
    paths: ANY_PATH,
    shown: 'at',
    members: { at: choice('Where', ['before_headers', 'in_body']) },
  },
  garbage: {
    word: 'Garbage',
    description: 'Sends bytes that are not HTTP.',
    paths: ANY_PATH,
    members: {},
  },
  wrong_gzip: {
    word: 'Broken gzip',
    description: 'Declares the body as gzip, but it is plain, cut short or corrupt.',
    paths: ANY_PATH,
    members: { how: maybe(choice('How', ['plain', 'cut', 'corrupt'])) },
  },
  redirect: {
    word: 'Redirect',
    description: 'Redirects to another path, or to a location of your choice.',
    paths: ANY_PATH,
    members: {
      status: maybe(choice('Status', [307, 301, 302, 303, 308])),
      location: maybe(field(HEADER_TEXT, { label: 'Location (empty: another path here)' })),
    },
  },
  oversized_headers: {
    word: 'Oversized headers',
    description: 'Adds this many bytes of header fields to the correct answer.',
    paths: ANY_PATH,
    members: { bytes: bytes(1, 10_000_000, { label: 'Size', start: 100_000 }) },
  },
  oversized_body: {
    word: 'Oversized body',
    description: 'Adds this many bytes of white space to the correct body.',
    paths: ANY_PATH,
    members: { bytes: bytes(1, 1_000_000_000, { label: 'Size', start: 10_000_000 }) },
  },
  wrong_owner_token: {
    word: "Another owner's token",
    description: 'Issues a token of another owner, if there is one.',
    paths: ['token'],
    members: {},
  },
});

export const FAULT_KIND_NAMES = Object.keys(FAULT_KINDS) as FaultKind[];

/** The schemas of a kind's members by name, for code that treats all kinds alike. */
export const faultMembers = (kind: FaultKind): [name: string, member: Schema][] =>
  Object.entries(FAULT_KINDS[kind].members);
