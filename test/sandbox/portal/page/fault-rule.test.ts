import { expect, it } from 'vitest';
import {
  type FormValues,
  fieldsOfKind,
  hasFieldFor,
  problemOf,
  ruleOf,
  WHEN_FIELDS,
  type WhenKind,
} from '../../../../src/sandbox/portal/page/fault-rule.ts';
import { FAULT_KIND_NAMES, faultMembers } from '../../../../src/sandbox/state/world/fault-kinds.ts';
import { FAULT_RULE } from '../../../../src/sandbox/state/world/fault-rules.ts';
import { checked } from '../../../../src/sandbox/state/world/schema.ts';

const checkFaultRule = (rule: unknown) => checked('request body', FAULT_RULE, rule);

const answers = (changes: Partial<FormValues>): FormValues => ({
  kind: 'silence',
  when: 'always',
  path: '',
  owner: '',
  fields: {},
  ...changes,
});

it('the form for a fault has a field for every member of every kind but headers', () => {
  for (const kind of FAULT_KIND_NAMES) {
    const members = faultMembers(kind).map(([name]) => name);
    expect(fieldsOfKind(kind).map(({ name }) => name)).toEqual(members.filter((name) => name !== 'headers'));
  }
});

it('the form for a fault begins with answers that make a valid rule, for every kind and condition', () => {
  for (const kind of FAULT_KIND_NAMES) {
    for (const when of Object.keys(WHEN_FIELDS) as WhenKind[]) {
      expect(() => checkFaultRule(ruleOf(answers({ kind, when })))).not.toThrow();
    }
  }
});

it('the form for a fault turns its answers into the rule', () => {
  const fields = { status: '429', retryAfter: '7', body: '', 'when.next': '2' };
  expect(ruleOf(answers({ kind: 'status', when: 'next', owner: 'owner-001', path: 'all', fields }))).toEqual({
    kind: 'status',
    status: 429,
    retryAfter: 7,
    target: { path: 'all', owner: 'owner-001' },
    when: { next: 2 },
  });
  const span = { 'when.fromMs': '0', 'when.toMs': '0.5', 'when.everyMs': '1 s' };
  expect(ruleOf(answers({ when: 'schedule', fields: span })).when).toEqual({ schedule: [[0, 500]], everyMs: 1000 });
});

it('the form for a fault takes a date as Retry-After, and keeps a setting and a condition of one name apart', () => {
  const fields = { retryAfter: 'Wed, 21 Oct 2026 07:28:00 GMT', everyMs: '0.02', 'when.everyMs': '60' };
  expect(ruleOf(answers({ kind: 'status', fields }))).toMatchObject({ retryAfter: fields.retryAfter });
  const both = ruleOf(answers({ kind: 'drip', when: 'schedule', fields }));
  expect(both).toMatchObject({ everyMs: 20, when: { everyMs: 60_000 } });
});

it.each([
  ['latency', 'always', { ms: '-1' }, { ms: 'expected 0 to 2592000 seconds' }],
  ['drip', 'always', { everyMs: 'x' }, { everyMs: 'expected 0.001 to 2592000 seconds' }],
  ['status', 'always', { status: '99' }, { status: 'expected an integer from 200 to 599' }],
  ['silence', 'over', { 'when.perMs': '0' }, { 'when.perMs': 'expected at least 0.001 seconds' }],
  [
    'silence',
    'schedule',
    { 'when.fromMs': '5', 'when.toMs': '2' },
    { 'when.fromMs': 'expected a start before the end', 'when.toMs': 'expected a start before the end' },
  ],
  ['silence', 'schedule', { 'when.everyMs': '1' }, { 'when.everyMs': 'expected at least the time of the end' }],
] as const)(
  'the form for a fault explains a refused %s, %s, at its field and in its unit',
  (kind, when, fields, expected) => {
    const given = answers({ kind, when, fields });
    let message = '';
    try {
      checkFaultRule(ruleOf(given));
    } catch (error) {
      message = (error as Error).message;
    }
    expect(hasFieldFor(given, message)).toBe(true);
    const shown = [
      ...fieldsOfKind(kind).map((field) => [field.name, problemOf(field, message)]),
      ...WHEN_FIELDS[when].map((field) => [`when.${field.name}`, problemOf(field, message, 'when.')]),
    ];
    expect(Object.fromEntries(shown.filter(([, problem]) => problem !== undefined))).toEqual(expected);
  },
);
