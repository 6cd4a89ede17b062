/**
 * What a fault rule can say: what goes wrong, for whom, and when. Deterministic conditions come first: a test that fails
 * should fail the same way again.
 */

/** A wrong answer, or none. Delays are by the sandbox's clock: frozen, they last until it is advanced. */
export type FaultEffect =
  | StatusEffect
  /** The right answer, this much later. */
  | { kind: 'latency'; ms: number }
  /**
   * No connection. Aimed at everything, with `always` or a schedule, the port is closed and whoever is connected cut off:
   * `ECONNREFUSED`, which the kernel answers, so that it cannot be counted. Otherwise the connection is reset when the
   * request has come, without an answer: `ECONNRESET`.
   */
  | { kind: 'refuse' }
  /** The request is read and nothing is ever answered. */
  | { kind: 'silence' }
  /** The answer stops before its headers or after them; for good, or for `ms`. */
  | { kind: 'stall'; at: 'before_headers' | 'after_headers'; ms?: number }
  /** The body comes so many bytes at a time (1), each after `everyMs` (100). */
  | { kind: 'drip'; bytes?: number; everyMs?: number }
  /** The connection ends in order after this many bytes of the body (half of it). */
  | { kind: 'truncate'; keepBytes?: number }
  /** The connection is reset before anything is answered, or in the middle of the body. */
  | { kind: 'reset'; at: 'before_headers' | 'in_body' }
  /** Bytes that are not HTTP. */
  | { kind: 'garbage' }
  /** Said to be gzip: `plain` is not compressed at all, `cut` ends too early, `corrupt` has bytes changed. */
  | { kind: 'wrong_gzip'; how?: 'plain' | 'cut' | 'corrupt' }
  /** To `location`, or to another path of the token plane. */
  | { kind: 'redirect'; status?: 301 | 302 | 303 | 307 | 308; location?: string }
  /** Header fields, or a body, of at least this size: 100,000 bytes of headers; 10,000,000 of body. */
  | { kind: 'oversized_headers'; bytes?: number }
  | { kind: 'oversized_body'; bytes?: number }
  /** A token of another owner of the app. Only on the token endpoint, and only if there is another owner. */
  | { kind: 'wrong_owner_token' };

interface StatusEffect {
  kind: 'status';
  /** 200 to 599. */
  status: number;
  /** A string goes out as it is, anything else as JSON. Default: an OAuth error for 4xx, some HTML for 5xx. */
  body?: unknown;
  headers?: Record<string, string>;
  /** A number of seconds, or a text for the header as it is. On 429 with `over`, default: when the window ends. */
  retryAfter?: number | string;
}

export type FaultKind = FaultEffect['kind'];

/** When a rule strikes. */
export type FaultWhen =
  /** The next so many requests that it is aimed at. */
  | { next: number }
  | { always: true }
  /** A rate limit: what is over so many requests in each window, which starts with its first request. */
  | { over: number; perMs: number }
  /** Between these times, in milliseconds since the rule was added; with `everyMs` again and again. */
  | { schedule: [fromMs: number, toMs: number][]; everyMs?: number }
  /** With this probability, drawn from a generator of its own with this seed (1). */
  | { probability: number; seed?: number };

/** What a rule is aimed at; what is left out may be anything. */
export interface FaultTarget {
  /** Default `token`; `all` for `refuse`. */
  path?: 'token' | 'echo' | 'all';
  /** An app's id. */
  app?: string;
  /** An owner's id, as `ownerOf` gives it. */
  owner?: string;
}

/**
 * A fault rule. Of several rules that strike, the oldest does; `latency` delays and lets the next one strike too.
 */
export type FaultRule = FaultEffect & {
  /** Default: made up. */
  id?: string;
  /** Default: every token request. */
  target?: FaultTarget;
  /** Default: always. */
  when?: FaultWhen;
};

/** A rule that was added, and what has become of it. It stays in the list when it is used up, until it is removed. */
export type ActiveFault = FaultRule & {
  id: string;
  target: FaultTarget;
  when: FaultWhen;
  addedAtMs: number;
  /** Requests that it struck. */
  hits: number;
  /** What is left: of `next` in requests, of a schedule in milliseconds. Absent: no end. */
  left?: { requests: number } | { ms: number };
};

/** Rules to make a sandbox misbehave. Removing one restores exactly what was before. */
export interface SandboxFaults {
  /** Adds a rule and returns its id. Unknown or bad members are refused. */
  add(rule: FaultRule): string;
  remove(id: string): void;
  clear(): void;
  list(): ActiveFault[];
}
