import { useState } from 'preact/hooks';
import { Choice } from '../../../page-engine/parts.tsx';
import { FAULT_KIND_NAMES, FAULT_KINDS } from '../../state/world/fault-kinds.ts';
import type { FaultRule } from '../../state/world/fault-rules.ts';
import { ask, Refused, send } from './api.ts';
import {
  type FaultField,
  type FormValues,
  fieldsOfKind,
  hasFieldFor,
  OWNER_FIELD,
  problemOf,
  ruleOf,
  WHEN_FIELDS,
  WHEN_WORDS,
} from './fault-rule.ts';
import { Action, Section, TextField, useAction } from './parts.tsx';

const KINDS = FAULT_KIND_NAMES.map((kind) => [kind, FAULT_KINDS[kind].word] as const);

const PATHS = [
  ['', 'Default for this fault'],
  ['token', 'Token requests'],
  ['echo', 'Calls to /echo'],
  ['all', 'Everything'],
] as const;

const START: FormValues = { kind: 'status', when: 'next', path: '', owner: '', fields: {} };

const FOR_30_S = { schedule: [[0, 30_000]] as [number, number][] };

/** The most common faults, one click each. */
const PRESETS: readonly (readonly [title: string, rule: FaultRule])[] = [
  ['503 for 30 s', { kind: 'status', status: 503, when: FOR_30_S }],
  ['429 with Retry-After, above 10 in 10 s', { kind: 'status', status: 429, when: { over: 10, perMs: 10_000 } }],
  ['Black hole for 30 s', { kind: 'silence', when: FOR_30_S }],
  ['Slow body for 30 s', { kind: 'drip', bytes: 8, everyMs: 500, when: FOR_30_S }],
  ["Another owner's token, once", { kind: 'wrong_owner_token', when: { next: 1 } }],
];

/** The form for a fault rule. */
export function FaultForm() {
  const [values, setValues] = useState(START);
  const [problem, setProblem] = useState('');
  const [busy, run] = useAction();
  const change = (changes: Partial<FormValues>) => {
    setProblem('');
    setValues({ ...values, ...changes });
  };
  const rule = ruleOf(values);
  const add = async () => {
    try {
      await ask('POST', '/api/faults', rule);
      return `${FAULT_KINDS[values.kind].word}: added.`;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      setProblem(error.message);
      if (hasFieldFor(values, error.message)) return 'Not added: see the marked field.';
      throw error;
    }
  };
  const fieldsOf = (fields: readonly FaultField[], prefix = '') =>
    fields.map((field) => {
      const wrong = problemOf(field, problem, prefix);
      const name = prefix + field.name;
      return <FieldInput key={name} name={name} field={field} values={values} change={change} problem={wrong} />;
    });
  return (
    <Section title="Add a fault">
      <Presets />
      <form
        onSubmit={(event) => {
          event.preventDefault();
          run(add);
        }}
      >
        <fieldset>
          <legend>What goes wrong</legend>
          <Choice
            label="Kind"
            value={values.kind}
            options={KINDS}
            onChange={(kind) => change({ kind, fields: pick(values.fields, 'when.') })}
          />
          {fieldsOf(fieldsOfKind(values.kind))}
          <p class="hint">{FAULT_KINDS[values.kind].description}</p>
        </fieldset>
        <fieldset>
          <legend>When</legend>
          <Choice label="Condition" value={values.when} options={WHEN_WORDS} onChange={(when) => change({ when })} />
          {fieldsOf(WHEN_FIELDS[values.when], 'when.')}
        </fieldset>
        <fieldset>
          <legend>Target</legend>
          <Choice label="Requests" value={values.path} options={PATHS} onChange={(path) => change({ path })} />
          <TextField
            label="Owner id (empty: any)"
            value={values.owner}
            problem={problemOf(OWNER_FIELD, problem)}
            onInput={(owner) => change({ owner: owner.trim() })}
          />
        </fieldset>
        <p class="hint">The rule as JSON, for code and REST</p>
        <pre class="rule">{JSON.stringify(rule)}</pre>
        <button type="submit" class="main" aria-busy={busy}>
          Add fault
        </button>
      </form>
    </Section>
  );
}

function Presets() {
  return (
    <ul class="row presets" aria-label="Presets">
      {PRESETS.map(([title, rule]) => (
        <li key={title}>
          <Action look="chip" act={() => send(`${title}: added.`, 'POST', '/api/faults', rule)}>
            {title}
          </Action>
        </li>
      ))}
    </ul>
  );
}

function FieldInput(props: {
  field: FaultField;
  /** With its prefix. */
  name: string;
  values: FormValues;
  change: (changes: Partial<FormValues>) => void;
  problem: string | undefined;
}) {
  const { field, name, values, change, problem } = props;
  const value = values.fields[name] ?? field.start;
  const set = (text: string) => change({ fields: { ...values.fields, [name]: text } });
  if (field.type === 'choice') {
    const options = (field.options ?? []).map((option) => [option, option.replace('_', ' ')] as const);
    return <Choice label={field.label} value={value} options={options} onChange={set} />;
  }
  return (
    <TextField
      label={field.type === 'seconds' ? `${field.label}, seconds` : field.label}
      value={value}
      numeric={field.type !== 'text'}
      problem={problem}
      onInput={set}
    />
  );
}

const pick = (fields: FormValues['fields'], prefix: string): FormValues['fields'] =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => name.startsWith(prefix)));
