import { nearest, OptionCheck } from '../../option-check.ts';
import { FAULT_KIND_NAMES, FAULT_KINDS, type FaultKind, type FaultMember, faultMembers } from './fault-kinds.ts';
import type { FaultRule, FaultTarget, FaultWhen } from './fault-rules.ts';

const MAX_SPAN_MS = 30 * 86_400_000;

/** The members of a rule of any kind, before the kind is known to be valid. */
type Members = Record<string, unknown>;

/** Throws `invalid_options`, listing everything that is wrong with a rule. Unknown members are errors too. */
export function checkFaultRule(rule: FaultRule): void {
  const given: unknown = (rule as FaultRule | null)?.kind;
  const kind = FAULT_KIND_NAMES.find((name) => name === given);
  const kinds = kind ? [kind] : FAULT_KIND_NAMES;
  const known = [
    'kind',
    'id',
    'target',
    'when',
    ...kinds.flatMap((name) => faultMembers(name).map(([member]) => member)),
  ];
  const check = new OptionCheck<Members>('fault rule', rule as Members, known);
  if (kind) {
    for (const [name, member] of faultMembers(kind)) checkMember(check, name, member);
  } else {
    const near = typeof given === 'string' ? nearest(given, FAULT_KIND_NAMES) : undefined;
    check.problem('kind', `one of ${FAULT_KIND_NAMES.join(', ')}${near ? `; did you mean ${near}?` : ''}`);
  }
  check.when('id', (id) => typeof id === 'string' && /^[\w-]{1,40}$/.test(id), 'up to 40 letters, digits, - and _');
  checkTarget(check.nested<FaultTarget>('target', ['path', 'app', 'owner']), kind);
  checkWhen(check, (rule as FaultRule | null)?.when);
  check.done();
}

function checkMember(check: OptionCheck<Members>, name: string, member: FaultMember): void {
  const framing = member.type === 'headers' ? framingHeaderIn(check.values[name]) : undefined;
  if (framing) check.problem(name, `no ${framing}: the sandbox frames its answers itself`);
  const [passes, expected] = testOf(member);
  if (member.required) check.required(name, passes, expected);
  else check.when(name, passes, expected);
}

function testOf(member: FaultMember): [passes: (value: unknown) => boolean, expected: string] {
  switch (member.type) {
    case 'integer': {
      const unit = { ms: 'milliseconds, ', bytes: 'bytes, ', none: '' }[member.unit ?? 'none'];
      return [isInteger(member.min, member.max), `${unit}an integer from ${member.min} to ${member.max}`];
    }
    case 'choice':
      return [(value) => member.values.includes(value as string), `one of ${member.values.join(', ')}`];
    case 'headerText':
      return [isHeaderText, 'the text of a header'];
    case 'retryAfter':
      return [(value) => isInteger(0, 1e9)(value) || isHeaderText(value), 'seconds, or the text of the header'];
    case 'headers':
      return [isHeaders, 'an object of header names and values'];
    case 'body':
      return [isBody, 'a string, or a value that JSON can represent'];
  }
}

function checkTarget(check: OptionCheck<FaultTarget> | undefined, kind: FaultKind | undefined): void {
  if (!check) return;
  const paths: readonly unknown[] = kind ? FAULT_KINDS[kind].paths : ['token', 'echo', 'all'];
  check.when('path', (value) => paths.includes(value), paths.join(', '));
  for (const name of ['app', 'owner'] as const) {
    check.when(name, (value) => typeof value === 'string' && value !== '', `the id of an ${name}`);
  }
}

/** The member of `when` that names each condition, and the members that may stand beside it. */
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
  if (condition === 'over') nested.required('perMs', isInteger(1, MAX_SPAN_MS), 'milliseconds, at least 1');
  nested.when('schedule', isSchedule, 'a list of [fromMs, toMs], in order and without overlap');
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
    if (!isInteger(endMs, MAX_SPAN_MS)(fromMs) || !isInteger(fromMs + 1, MAX_SPAN_MS)(toMs)) return false;
    endMs = toMs;
  }
  return true;
}

const isPeriodFor = (everyMs: unknown, schedule: unknown): boolean =>
  isSchedule(schedule) && isInteger((schedule as number[][]).at(-1)?.[1] ?? 1, MAX_SPAN_MS)(everyMs);

function isHeaders(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return Object.entries(value).every(([name, text]) => /^[\w!#$%&'*+.^`|~-]{1,100}$/.test(name) && isHeaderText(text));
}

/** Headers that say where an answer ends. Node throws, or sends an answer that never ends, if they contradict it. */
const FRAMING_HEADERS: readonly string[] = ['connection', 'content-length', 'trailer', 'transfer-encoding'];

function framingHeaderIn(headers: unknown): string | undefined {
  if (typeof headers !== 'object' || headers === null) return undefined;
  return FRAMING_HEADERS.find((framing) => Object.keys(headers).some((name) => name.toLowerCase() === framing));
}

function isBody(value: unknown): boolean {
  try {
    return JSON.stringify(value) !== undefined;
  } catch {
    return false;
  }
}

const isHeaderText = (value: unknown): boolean => typeof value === 'string' && /^[\x20-\x7e]{0,4000}$/.test(value);

const isInteger =
  (least: number, most: number) =>
  (value: unknown): boolean =>
    Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
