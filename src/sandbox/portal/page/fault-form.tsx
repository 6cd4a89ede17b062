import { useState } from 'preact/hooks';
import type { AppView, OwnerView } from '../../api-types.ts';
import type { FaultKind } from '../../state/fault-rules.ts';
import { ask } from './api.ts';
import { type Answers, FAULT_FIELDS, type FaultField, ruleOf, WHEN_FIELDS, WHEN_WORDS } from './fault-rule.ts';
import { Choice, Field, useAction } from './parts.tsx';
import { FAULT_WORDS } from './words.ts';

const KINDS = Object.entries(FAULT_WORDS) as [FaultKind, string][];

const PATHS = [
  ['', 'What the kind is made for'],
  ['token', 'Token requests'],
  ['echo', 'Calls of /echo'],
  ['all', 'Everything'],
] as const;

const START: Answers = { kind: 'status', when: 'next', path: '', owner: '', app: '', fields: {} };

/** A rule, put together; beside it what will be sent. */
export function FaultForm({ owners, apps }: { owners: readonly OwnerView[]; apps: readonly AppView[] }) {
  const [answers, setAnswers] = useState(START);
  const [busy, run] = useAction();
  const change = (changes: Partial<Answers>) => setAnswers({ ...answers, ...changes });
  const rule = ruleOf(answers);
  const add = async () => {
    await ask('POST', '/api/faults', rule);
    return `${FAULT_WORDS[answers.kind]}: added.`;
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
          {fieldsOf(FAULT_FIELDS[answers.kind])}
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
  answers: Answers;
  change: (changes: Partial<Answers>) => void;
}) {
  const { field, prefix, answers, change } = props;
  const value = answers.fields[prefix + field.name] ?? field.start;
  const set = (text: string) => change({ fields: { ...answers.fields, [prefix + field.name]: text } });
  if (field.type === 'choice') {
    const options = (field.options ?? []).map((option) => [option, option.replace('_', ' ')] as const);
    return <Choice label={field.label} value={value} options={options} onChange={set} />;
  }
  return (
    <Field label={field.label}>
      {(id) => (
        <input
          id={id}
          type="text"
          inputMode={field.type === 'number' ? 'decimal' : 'text'}
          value={value}
          onInput={(event) => set(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

const pick = (fields: Answers['fields'], prefix: string): Answers['fields'] =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => name.startsWith(prefix)));
