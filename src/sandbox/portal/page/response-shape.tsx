import { useContext } from 'preact/hooks';
import { Choice, Table } from '../../../page-engine/parts.tsx';
import type { Fact } from '../../state/world/facts.ts';
import { ODD, type OddShape, type Profile, type ProfileChanges, SETTINGS } from '../../state/world/profile.ts';
import { fieldOf, type Schema } from '../../state/world/schema.ts';
import { ask, tellFailure } from './api.ts';
import { useTry } from './connect-panel.tsx';
import type { Model } from './model.ts';
import { Action, Check, Say, Section, TextField, useFetched } from './parts.tsx';

/** Everything that the service's documentation leaves open, each as a setting. */
export function ResponseShape({ model }: { model: Model }) {
  const say = useContext(Say);
  const { profile } = model;
  const change = (changes: ProfileChanges) => {
    ask('PATCH', '/api/profile', changes).then(
      () => say('Changed for all requests from now on.'),
      (error: unknown) => say(`Not done: ${tellFailure(error)}`),
    );
  };
  return (
    <div class="two">
      <Section title="Settings">
        <p class="hint">All of this is assumed: the service documents only the request.</p>
        <Settings profile={profile} change={change} />
      </Section>
      <Try />
      <FactTable profile={profile} />
    </div>
  );
}

/** The settings in the order of the form: those of a request, a token and an error. */
const GROUPS = [
  ['A request', ['acceptForms']],
  ['A token', ['shape', 'odd', 'tokenFormat', 'lifetimeSeconds', 'replicationLagMs', 'revokePrevious']],
  ['An error', ['errorForm', 'revokedKey', 'revokedKeyEndsTokens']],
] as const;

function Settings({ profile, change }: { profile: Profile; change: (changes: ProfileChanges) => void }) {
  return GROUPS.map(([legend, names]) => (
    <fieldset key={legend}>
      <legend>{legend}</legend>
      {names.map((name) => {
        const set = (value: unknown) => change({ [name]: value });
        if (name !== 'odd') return <Setting key={name} schema={SETTINGS[name]} value={profile[name]} set={set} />;
        const odd = Object.entries(ODD) as [keyof OddShape, Schema][];
        return (
          profile.shape === 'odd' &&
          odd.map(([member, schema]) => (
            <Setting key={member} schema={schema} value={profile.odd[member]} set={(to) => set({ [member]: to })} />
          ))
        );
      })}
    </fieldset>
  ));
}

/** The control for a setting, as its schema says. */
function Setting(props: { schema: Schema; value: string | number | boolean; set: (value: unknown) => void }) {
  const { schema, value, set } = props;
  const { label, words } = fieldOf(schema).facts;
  if (typeof value === 'boolean') return <Check label={label} checked={value} onChange={set} />;
  if (words) return <Choice label={label} value={`${value}`} options={Object.entries(words)} onChange={set} />;
  return (
    // Not at each key, so that no half-typed number is sent.
    <TextField label={label} value={`${value}`} numeric={true} onChange={(text) => set(Number(text))} />
  );
}

/** What a client gets with the settings in force. */
function Try() {
  const [tried, sendOne] = useTry();
  return (
    <Section title="Try it" class="try">
      <Action look="main" act={sendOne}>
        Send one request
      </Action>
      {tried}
    </Section>
  );
}

function FactTable({ profile }: { profile: Profile }) {
  const facts = useFetched<readonly Fact[]>('/api/facts', [], profile);
  return (
    <Section title="What the sandbox does, and on what basis" class="facts-section">
      <Table label="What is documented and what is assumed" heads={['What the sandbox does', 'Basis']}>
        {facts.map(({ statement, basis }) => (
          <tr key={statement}>
            <td>{statement}</td>
            <td>
              <span class={`basis ${basis}`}>{basis}</span>
            </td>
          </tr>
        ))}
      </Table>
    </Section>
  );
}
