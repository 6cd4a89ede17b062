import { useState } from 'preact/hooks';
import type { AppView, OwnerView } from '../../api-types.ts';
import { FAULT_KIND_NAMES, FAULT_KINDS } from '../../state/fault-kinds.ts';
import { ask } from './api.ts';
import { type FaultField, type FormValues, fieldsOfKind, ruleOf, WHEN_FIELDS, WHEN_WORDS } from './fault-rule.ts';
import { Choice, Field, useAction } from './parts.tsx';

const KINDS = FAULT_KIND_NAMES.map((kind) => [kind, FAULT_KINDS[kind].word] as const);

const PATHS = [
  ['', 'Default for this fault'],
  ['token', 'Token requests'],
  ['echo', 'Calls of /echo'],
  ['all', 'Everything'],
] as const;

const START: FormValues = { kind: 'status', when: 'next', path: '', owner: '', app: '', fields: {} };

/** A rule, put together; beside it what will be sent. */
export function FaultForm({ owners, apps }: { owners: readonly OwnerView[]; apps: readonly AppView[] }) {
  const [answers, setFormValues] = useState(START);
  const [busy, run] = useAction();
  const change = (changes: Partial<FormValues>) => setFormValues({ ...answers, ...changes });
  const rule = ruleOf(answers);
  const add = async () => {
    await ask('POST', '/api/faults', rule);
    return `${FAULT_KINDS[answers.kind].word}: added.`;
  };
  const fieldsOf = (fields: readonly FaultField[], prefix = '') =>
    fields.map((field) => <FieldInput key={prefix + field.name} {...{ field, prefix, answers, change }} />);
  return (
    <section aria-labelledby="add-heading">
      <h2 id="add-heading">Add a fault</h2>
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
            value={answers.kind}
            options={KINDS}
            onChange={(kind) => change({ kind, fields: pick(answers.fields, 'when.') })}
          />
          {fieldsOf(fieldsOfKind(answers.kind))}
        </fieldset>
        <fieldset>
          <legend>When</legend>
          <Choice label="Condition" value={answers.when} options={WHEN_WORDS} onChange={(when) => change({ when })} />
          {fieldsOf(WHEN_FIELDS[answers.when], 'when.')}
        </fieldset>
        <fieldset>
          <legend>For whom</legend>
          <Choice label="Requests" value={answers.path} options={PATHS} onChange={(path) => change({ path })} />
          <Choice
            label="Owner"
            value={answers.owner}
            options={[['', 'Any'], ...owners.map(({ id }) => [id, id] as const)]}
            onChange={(owner) => change({ owner })}
          />
          <Choice
            label="App"
            value={answers.app}
            options={[['', 'Any'], ...apps.map(({ id }) => [id, id] as const)]}
            onChange={(app) => change({ app })}
          />
        </fieldset>
        <p class="hint">The rule, as code and as the control plane take it:</p>
        <pre class="rule">{JSON.stringify(rule)}</pre>
        <button type="submit" class="main" aria-busy={busy}>
          Add fault
        </button>
      </form>
    </section>
  );
}

function FieldInput(props: {
  field: FaultField;
  prefix: string;
  answers: FormValues;
  change: (changes: Partial<FormValues>) => void;
}) {
  const { field, prefix, answers, change } = props;
  const value = answers.fields[prefix + field.name] ?? field.start;
  const set = (text: string) => change({ fields: { ...answers.fields, [prefix + field.name]: text } });
  if (field.type === 'choice') {
    const options = (field.options ?? []).map((option) => [option, option.replace('_', ' ')] as const);
    return <Choice label={field.label} value={value} options={options} onChange={set} />;
  }
  return (
    <Field label={field.type === 'seconds' ? `${field.label}, seconds` : field.label}>
      {(id) => (
        <input
          id={id}
          type="text"
          inputMode={field.type === 'text' ? 'text' : 'decimal'}
          value={value}
          onInput={(event) => set(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

const pick = (fields: FormValues['fields'], prefix: string): FormValues['fields'] =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => name.startsWith(prefix)));
