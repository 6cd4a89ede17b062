import { nearest, OptionCheck } from '../../option-check.ts';
import type { FaultKind, FaultRule, FaultTarget, FaultWhen } from './fault-rules.ts';

/** What each kind takes beside `id`, `target` and `when`. */
const MEMBERS: Record<FaultKind, readonly string[]> = {
  status: ['status', 'body', 'headers', 'retryAfter'],
  latency: ['ms'],
  refuse: [],
  silence: [],
  stall: ['at', 'ms'],
  drip: ['bytes', 'everyMs'],
  truncate: ['keepBytes'],
  reset: ['at'],
  garbage: [],
  wrong_gzip: ['how'],
  redirect: ['status', 'location'],
  oversized_headers: ['bytes'],
  oversized_body: ['bytes'],
  wrong_owner_token: [],
};

export const FAULT_KINDS = Object.keys(MEMBERS) as FaultKind[];

const DAY_MS = 86_400_000;
const MAX_DELAY_MS = 30 * DAY_MS;

/** A rule's members of every kind together: what a check looks at before the kind is known to be right. */
type Members = Record<string, unknown>;

/** Throws `invalid_options` with all that is wrong with a rule. Nothing in it is ignored. */
export function checkFaultRule(rule: FaultRule): void {
  const kind: unknown = (rule as FaultRule | null)?.kind;
  const members = typeof kind === 'string' && Object.hasOwn(MEMBERS, kind) ? MEMBERS[kind as FaultKind] : undefined;
  const known = ['kind', 'id', 'target', 'when', ...(members ?? Object.values(MEMBERS).flat())];
  const check = new OptionCheck<Members>('fault rule', rule as Members, known);
  if (!members) {
    const near = typeof kind === 'string' ? nearest(kind, FAULT_KINDS) : undefined;
    check.problem('kind', `one of ${FAULT_KINDS.join(', ')}${near ? `; did you mean ${near}?` : ''}`);
  } else {
    checkEffect(kind as FaultKind, check);
  }
  check.when('id', (id) => typeof id === 'string' && /^[\w-]{1,40}$/.test(id), 'up to 40 letters, digits, - and _');
  checkTarget(check.nested<FaultTarget>('target', ['path', 'app', 'owner']), kind);
  checkWhen(check, (rule as FaultRule | null)?.when);
  check.done();
}

function checkEffect(kind: FaultKind, check: OptionCheck<Members>): void {
  switch (kind) {
    case 'status':
      check.required('status', isInteger(200, 599), 'a whole number from 200 to 599');
      check.when('headers', isHeaders, 'an object of header names and values');
      check.when('retryAfter', (value) => isInteger(0, 1e9)(value) || isHeaderText(value), 'seconds, or a header text');
      return;
    case 'latency':
      check.required('ms', isInteger(0, MAX_DELAY_MS), 'milliseconds, up to 30 days');
      return;
    case 'stall':
      check.required('at', isOneOf('before_headers', 'after_headers'), 'before_headers or after_headers');
      check.integer('ms', 0, MAX_DELAY_MS);
      return;
    case 'drip':
      check.integer('bytes', 1, 1_000_000);
      check.integer('everyMs', 1, MAX_DELAY_MS);
      return;
    case 'truncate':
      check.integer('keepBytes', 0, 1_000_000);
      return;
    case 'reset':
      check.required('at', isOneOf('before_headers', 'in_body'), 'before_headers or in_body');
      return;
    case 'wrong_gzip':
      check.when('how', isOneOf('plain', 'cut', 'corrupt'), 'plain, cut or corrupt');
      return;
    case 'redirect':
      check.when('status', isOneOf(301, 302, 303, 307, 308), '301, 302, 303, 307 or 308');
      check.when('location', isHeaderText, 'a URL');
      return;
    case 'oversized_headers':
      check.integer('bytes', 1, 10_000_000);
      return;
    case 'oversized_body':
      check.integer('bytes', 1, 1_000_000_000);
      return;
    default:
      return;
  }
}

function checkTarget(check: OptionCheck<FaultTarget> | undefined, kind: unknown): void {
  if (!check) return;
  const paths = kind === 'wrong_owner_token' ? ['token'] : ['token', 'echo', 'all'];
  check.when('path', isOneOf(...paths), paths.join(', '));
  for (const name of ['app', 'owner'] as const) {
    check.when(name, (value) => typeof value === 'string' && value !== '', `the id of an ${name}`);
  }
}

/** Which member of `when` says what kind of condition it is, and what else that takes. */
const CONDITIONS: Record<string, readonly string[]> = {
  next: [],
  always: [],
  over: ['perMs'],
  schedule: ['everyMs'],
  probability: ['seed'],
};

function checkWhen(check: OptionCheck<Members>, when: unknown): void {
  if (when === undefined) return;
  const given = typeof when === 'object' && when !== null ? Object.keys(CONDITIONS).filter((name) => name in when) : [];
  const [condition] = given;
  const known = Object.entries(CONDITIONS).flatMap(([name, others]) =>
    condition === undefined || name === condition ? [name, ...others] : [],
  );
  const nested = check.nested<AnyCondition>('when', known);
  if (!nested) return;
  if (given.length !== 1) {
    check.problem('when', `exactly one of ${Object.keys(CONDITIONS).join(', ')}`);
    return;
  }
  nested.integer('next', 1, 1_000_000_000);
  nested.when('always', (value) => value === true, 'true');
  nested.integer('over', 0, 1_000_000_000);
  if (condition === 'over') nested.required('perMs', isInteger(1, MAX_DELAY_MS), 'milliseconds, at least 1');
  nested.when('schedule', isSchedule, 'a list of [fromMs, toMs], in order and apart');
  nested.when('everyMs', (value) => isPeriodFor(value, (when as AnyCondition).schedule), 'no less than the last toMs');
  nested.when('probability', (value) => typeof value === 'number' && value >= 0 && value <= 1, 'from 0 to 1');
  nested.integer('seed', 0, 0xffff_ffff);
}

type NamesOf<Union> = Union extends unknown ? keyof Union : never;
type AnyCondition = { [name in NamesOf<FaultWhen>]?: unknown };

function isSchedule(value: unknown): boolean {
  if (!Array.isArray(value) || value.length === 0 || value.length > 1000) return false;
  let endMs = 0;
  for (const span of value) {
    if (!Array.isArray(span) || span.length !== 2) return false;
    const [fromMs, toMs] = span;
    if (!isInteger(endMs, MAX_DELAY_MS)(fromMs) || !isInteger(fromMs + 1, MAX_DELAY_MS)(toMs)) return false;
    endMs = toMs;
  }
  return true;
}

const isPeriodFor = (everyMs: unknown, schedule: unknown): boolean =>
  isSchedule(schedule) && isInteger((schedule as number[][]).at(-1)?.[1] ?? 1, MAX_DELAY_MS)(everyMs);

function isHeaders(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(([name, text]) => /^[\w!#$%&'*+.^`|~-]{1,100}$/.test(name) && isHeaderText(text));
}

const isHeaderText = (value: unknown): boolean => typeof value === 'string' && /^[\x20-\x7e]{0,4000}$/.test(value);

const isInteger =
  (least: number, most: number) =>
  (value: unknown): boolean =>
    Number.isInteger(value) && (value as number) >= least && (value as number) <= most;

const isOneOf =
  (...values: unknown[]) =>
  (value: unknown): boolean =>
    values.includes(value);
