/**
 * Every kind of fault: the types of its rules, and one table from which rule validation, the portal's form and labels and
 * the schema in `/openapi.json` derive. To add a kind, add its members and its row here, and its effect in
 * `service/fault-effects.ts`.
 */

/** A member of a rule, beside `kind`, `id`, `target` and `when`. `start` is what the form begins with. */
export type FaultMember = { readonly label: string; readonly required?: true; readonly start?: string | number } & (
  | { readonly type: 'integer'; readonly min: number; readonly max: number; readonly unit?: 'ms' | 'bytes' }
  | { readonly type: 'choice'; readonly values: readonly (string | number)[] }
  | { readonly type: 'headerText' | 'retryAfter' | 'headers' | 'body' }
);

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
  /** Issues a token of another owner of the same app, if there is one. */
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
  readonly members: { readonly [Name in keyof Members]-?: FaultMember };
  /** The member whose value lists show after the word: `Error status 503`. */
  readonly shown?: keyof Members;
}

const MAX_DELAY_MS = 30 * 86_400_000;

const ANY_PATH = ['token', 'echo', 'all'] as const;

const integer = (label: string, min: number, max: number, more: { start?: number; unit?: 'ms' | 'bytes' } = {}) =>
  ({ type: 'integer', label, min, max, ...more }) as const;
const choice = (label: string, values: readonly (string | number)[]) =>
  ({ type: 'choice', label, values, ...(values[0] !== undefined && { start: values[0] }) }) as const;
const required = <Member extends FaultMember>(member: Member) => ({ ...member, required: true }) as const;

export const FAULT_KINDS: { readonly [Kind in FaultKind]: FaultKindRow<FaultMembers[Kind]> } = Object.freeze({
  status: {
    word: 'Error status',
    description: 'Answers with this status; the request is not processed.',
    paths: ANY_PATH,
    shown: 'status',
    members: {
      status: required(integer('Status', 200, 599, { start: 503 })),
      body: { type: 'body', label: 'Body' },
      headers: { type: 'headers', label: 'Headers' },
      retryAfter: { type: 'retryAfter', label: 'Retry-After, seconds or a date' },
    },
  },
  latency: {
    word: 'Latency',
    description: 'Delays the correct answer. Later rules still apply.',
    paths: ANY_PATH,
    shown: 'ms',
    members: { ms: required(integer('Delay', 0, MAX_DELAY_MS, { start: 2000, unit: 'ms' })) },
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
      at: required(choice('Where', ['before_headers', 'after_headers'])),
      ms: integer('Resume after (empty: never)', 0, MAX_DELAY_MS, { unit: 'ms' }),
    },
  },
  drip: {
    word: 'Slow body',
    description: 'Sends the body a few bytes at a time.',
    paths: ANY_PATH,
    members: {
      bytes: integer('Bytes at a time', 1, 1_000_000, { start: 1, unit: 'bytes' }),
      everyMs: integer('Interval', 1, MAX_DELAY_MS, { start: 100, unit: 'ms' }),
    },
  },
  truncate: {
    word: 'Truncate the body',
    description: 'Closes the connection in the middle of the body, without a reset.',
    paths: ANY_PATH,
    members: { keepBytes: integer('Bytes to send (empty: half)', 0, 1_000_000, { unit: 'bytes' }) },
  },
  reset: {
    word: 'Reset the connection',
    description: 'Resets the connection before anything is answered, or in the middle of the body.',
    paths: ANY_PATH,
    shown: 'at',
    members: { at: required(choice('Where', ['before_headers', 'in_body'])) },
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
    members: { how: choice('How', ['plain', 'cut', 'corrupt']) },
  },
  redirect: {
    word: 'Redirect',
    description: 'Redirects to another path, or to a location of your choice.',
    paths: ANY_PATH,
    members: {
      status: choice('Status', [307, 301, 302, 303, 308]),
      location: { type: 'headerText', label: 'Location (empty: another path here)' },
    },
  },
  oversized_headers: {
    word: 'Oversized headers',
    description: 'Adds this many bytes of header fields to the correct answer.',
    paths: ANY_PATH,
    members: { bytes: integer('Size', 1, 10_000_000, { start: 100_000, unit: 'bytes' }) },
  },
  oversized_body: {
    word: 'Oversized body',
    description: 'Adds this many bytes of white space to the correct body.',
    paths: ANY_PATH,
    members: { bytes: integer('Size', 1, 1_000_000_000, { start: 10_000_000, unit: 'bytes' }) },
  },
  wrong_owner_token: {
    word: "Another owner's token",
    description: 'Issues a token of another owner of the same app, if there is one.',
    paths: ['token'],
    members: {},
  },
});

export const FAULT_KIND_NAMES = Object.keys(FAULT_KINDS) as FaultKind[];

/** The members of a kind by name, for code that treats all kinds alike. */
export const faultMembers = (name: FaultKind): [name: string, member: FaultMember][] =>
  Object.entries(FAULT_KINDS[name].members as Record<string, FaultMember>);
