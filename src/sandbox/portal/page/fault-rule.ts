/** What the form for a fault rule asks, and the rule that comes of the answers. The control plane checks it. */

import type { FaultKind, FaultRule } from '../../state/fault-rules.ts';

/** A setting of one kind of fault. */
export interface FaultField {
  readonly name: string;
  readonly label: string;
  readonly type: 'number' | 'text' | 'choice';
  readonly options?: readonly string[];
  /** Filled in to begin with; an empty answer leaves the member out. */
  readonly start: string;
}

const number = (name: string, label: string, start = ''): FaultField => ({ name, label, type: 'number', start });
const text = (name: string, label: string): FaultField => ({ name, label, type: 'text', start: '' });
const choice = (name: string, label: string, ...options: string[]): FaultField => ({
  name,
  label,
  type: 'choice',
  options,
  start: options[0] ?? '',
});

export const FAULT_FIELDS: Readonly<Record<FaultKind, readonly FaultField[]>> = {
  status: [number('status', 'Status', '503'), text('body', 'Body'), text('retryAfter', 'Retry-After')],
  latency: [number('ms', 'Milliseconds', '2000')],
  refuse: [],
  silence: [],
  stall: [choice('at', 'Where', 'before_headers', 'after_headers'), number('ms', 'Milliseconds (empty: for good)')],
  drip: [number('bytes', 'Bytes at a time', '1'), number('everyMs', 'Every so many milliseconds', '100')],
  truncate: [number('keepBytes', 'Bytes to keep (empty: half)')],
  reset: [choice('at', 'Where', 'before_headers', 'in_body')],
  garbage: [],
  wrong_gzip: [choice('how', 'How', 'plain', 'cut', 'corrupt')],
  redirect: [number('status', 'Status', '307'), text('location', 'Location (empty: another path here)')],
  oversized_headers: [number('bytes', 'Bytes', '100000')],
  oversized_body: [number('bytes', 'Bytes', '10000000')],
  wrong_owner_token: [],
};

export type WhenKind = 'always' | 'next' | 'over' | 'schedule' | 'probability';

export const WHEN_FIELDS: Readonly<Record<WhenKind, readonly FaultField[]>> = {
  always: [],
  next: [number('next', 'Requests', '5')],
  over: [number('over', 'Requests let through', '10'), number('perMs', 'In so many milliseconds', '10000')],
  schedule: [
    number('fromMs', 'From, milliseconds from now', '0'),
    number('toMs', 'To, milliseconds from now', '30000'),
    number('everyMs', 'Again every so many milliseconds (empty: once)'),
  ],
  probability: [number('probability', 'Probability, 0 to 1', '0.1'), number('seed', 'Seed', '1')],
};

export const WHEN_WORDS: readonly (readonly [WhenKind, string])[] = [
  ['always', 'Always'],
  ['next', 'The next requests'],
  ['over', 'Over a rate limit'],
  ['schedule', 'For a time'],
  ['probability', 'At random, seeded'],
];

export interface Answers {
  readonly kind: FaultKind;
  readonly when: WhenKind;
  readonly path: '' | 'token' | 'echo' | 'all';
  readonly owner: string;
  readonly app: string;
  /** By name of the field. */
  readonly fields: Readonly<Record<string, string>>;
}

export function ruleOf({ kind, when, path, owner, app, fields }: Answers): FaultRule {
  const target = { ...(path && { path }), ...(owner && { owner }), ...(app && { app }) };
  return {
    kind,
    ...membersOf(FAULT_FIELDS[kind], fields),
    ...(Object.keys(target).length > 0 && { target }),
    when: whenOf(when, membersOf(WHEN_FIELDS[when], fields, 'when.')),
  } as FaultRule;
}

/** The answers to these fields by name, numbers as numbers; a number of seconds for Retry-After too. */
function membersOf(fields: readonly FaultField[], answers: Answers['fields'], prefix = ''): Record<string, unknown> {
  const members: Record<string, unknown> = {};
  for (const { name, type, start } of fields) {
    const answer = (answers[prefix + name] ?? start).trim();
    const isNumber = type === 'number' || (name === 'retryAfter' && /^\d+$/.test(answer));
    if (answer !== '') members[name] = isNumber ? Number(answer) : answer;
  }
  return members;
}

function whenOf(when: WhenKind, members: Record<string, unknown>): object {
  if (when === 'always') return { always: true };
  if (when !== 'schedule') return members;
  const { fromMs, toMs, ...rest } = members;
  return { schedule: [[fromMs ?? 0, toMs ?? 0]], ...rest };
}
