/** The fields of the form for a fault rule, and the rule built from their values. The control plane validates it. */

import { type FaultKind, faultMembers } from '../../state/world/fault-kinds.ts';
import type { FaultRule } from '../../state/world/fault-rules.ts';
import { fieldOf } from '../../state/world/schema.ts';

/** A field of the form. `seconds`: entered in seconds, sent in milliseconds. */
export interface FaultField {
  readonly name: string;
  readonly label: string;
  readonly type: 'number' | 'seconds' | 'text' | 'choice';
  readonly options?: readonly string[];
  /** Initial value. An empty value leaves the member out. */
  readonly start: string;
}

/** The fields of a kind, from the table of fault kinds. Headers have no field: only code and REST can set them. */
export const fieldsOfKind = (kind: FaultKind): FaultField[] =>
  faultMembers(kind).flatMap(([name, member]) => {
    const { schema, facts } = fieldOf(member);
    const { label, start = '', unit } = facts;
    if ('options' in schema && schema.type === 'picklist') {
      return { name, label, type: 'choice', options: (schema.options as unknown[]).map(String), start: `${start}` };
    }
    if (unit === 'ms') return { name, label, type: 'seconds', start: start === '' ? '' : `${Number(start) / 1000}` };
    if (schema.type === 'record') return [];
    return { name, label, type: schema.type === 'number' ? 'number' : 'text', start: `${start}` };
  });

export type WhenKind = 'always' | 'next' | 'over' | 'schedule' | 'probability';

const number = (name: string, label: string, start = ''): FaultField => ({ name, label, type: 'number', start });
const seconds = (name: string, label: string, start = ''): FaultField => ({ name, label, type: 'seconds', start });

export const WHEN_FIELDS: Readonly<Record<WhenKind, readonly FaultField[]>> = {
  always: [],
  next: [number('next', 'Requests', '5')],
  over: [number('over', 'Requests allowed', '10'), seconds('perMs', 'Per window of', '10')],
  schedule: [
    seconds('fromMs', 'Starts in', '0'),
    seconds('toMs', 'Ends in', '30'),
    seconds('everyMs', 'Repeats every (empty: once)'),
  ],
  probability: [number('probability', 'Probability, 0 to 1', '0.1'), number('seed', 'Seed', '1')],
};

export const WHEN_WORDS: readonly (readonly [WhenKind, string])[] = [
  ['always', 'Until removed'],
  ['schedule', 'On a schedule'],
  ['next', 'For the next requests'],
  ['over', 'Above a rate limit'],
  ['probability', 'At random, seeded'],
];

export interface FormValues {
  readonly kind: FaultKind;
  readonly when: WhenKind;
  readonly path: '' | 'token' | 'echo' | 'all';
  readonly owner: string;
  /** By field name; those of the condition begin with `when.`. */
  readonly fields: Readonly<Record<string, string>>;
}

export function ruleOf({ kind, when, path, owner, fields }: FormValues): FaultRule {
  const target = { ...(path && { path }), ...(owner && { owner }) };
  return {
    kind,
    ...membersOf(fieldsOfKind(kind), fields),
    ...(Object.keys(target).length > 0 && { target }),
    when: whenOf(when, membersOf(WHEN_FIELDS[when], fields, 'when.')),
  } as FaultRule;
}

/** Parsed field values by name. Retry-After is a number if it consists of digits, else a date. */
function membersOf(fields: readonly FaultField[], values: FormValues['fields'], prefix = ''): Record<string, unknown> {
  const members: Record<string, unknown> = {};
  for (const { name, type, start } of fields) {
    const value = (values[prefix + name] ?? start).trim();
    if (value !== '') members[name] = parsed(value, type);
  }
  return members;
}

function parsed(value: string, type: FaultField['type']): string | number {
  if (type === 'seconds') return Math.round(Number(value.replace(/\s*s$/, '')) * 1e6) / 1e3;
  return type === 'number' || /^\d+$/.test(value) ? Number(value) : value;
}

function whenOf(when: WhenKind, members: Record<string, unknown>): object {
  if (when === 'always') return { always: true };
  if (when !== 'schedule') return members;
  const { fromMs, toMs, ...rest } = members;
  return { schedule: [[fromMs ?? 0, toMs ?? 0]], ...rest };
}

/** The field for the owner's id. */
export const OWNER_FIELD: FaultField = { name: 'target.owner', label: 'Owner id', type: 'text', start: '' };

/** Whether one of the form's fields is the one that the control plane's message is about. */
export function hasFieldFor({ kind, when }: FormValues, message: string): boolean {
  return (
    [...fieldsOfKind(kind), OWNER_FIELD].some((field) => problemOf(field, message)) ||
    WHEN_FIELDS[when].some((field) => problemOf(field, message, 'when.'))
  );
}

/** The control plane's message about a field, in the words of the form; undefined if it is not about this field. */
export function problemOf({ name, type }: FaultField, message: string, prefix = ''): string | undefined {
  const isEnd = name === 'fromMs' || name === 'toMs';
  const path = prefix + (isEnd ? 'schedule' : name);
  const line = message.split('\n').find((one) => /^\s*-?\s*([\w.]*?)(\.\d+)*:/.exec(one)?.[1] === path);
  if (line === undefined) return undefined;
  if (isEnd) return 'expected a start before the end';
  if (path === 'when.everyMs') return 'expected at least the time of the end';
  const problem = line.replace(/^.*?:\s*/, '');
  if (type !== 'seconds') return problem;
  return problem
    .replace(/milliseconds, an integer from (\d+) to (\d+)/, (_, from, to) => `${from / 1000} to ${to / 1000} seconds`)
    .replace('milliseconds, at least 1', 'at least 0.001 seconds');
}
