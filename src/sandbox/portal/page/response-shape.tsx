import { useContext, useEffect, useState } from 'preact/hooks';
import { Scroll } from '../../../picture/parts.tsx';
import type { Fact } from '../../state/facts.ts';
import type { Profile, ProfileChanges } from '../../state/profile.ts';
import { ask, tellFailure } from './api.ts';
import type { Model } from './model.ts';
import { Check, Choice, Field, Say } from './parts.tsx';
import { Preview, usePreview } from './preview.tsx';

/** Everything that the service's documentation leaves open, each as a setting. */
export function ResponseShape({ model }: { model: Model }) {
  const say = useContext(Say);
  const { profile } = model;
  const change = (changes: ProfileChanges) => {
    ask('PATCH', '/api/profile', changes).then(
      () => say('Changed, for requests from now on.'),
      (error: unknown) => say(`Not done: ${tellFailure(error)}`),
    );
  };
  return (
    <div class="two">
      <section aria-labelledby="settings-heading">
        <h2 id="settings-heading">Settings</h2>
        <p class="hint">All of this is assumed: the service documents only the request.</p>
        <Answer profile={profile} change={change} />
        <Errors profile={profile} change={change} />
      </section>
      <Examples profile={profile} />
      <FactTable profile={profile} />
    </div>
  );
}

interface Props {
  readonly profile: Profile;
  readonly change: (changes: ProfileChanges) => void;
}

function Answer({ profile, change }: Props) {
  return (
    <fieldset>
      <legend>A token</legend>
      <Choice
        label="Response fields"
        value={profile.shape}
        options={[
          ['rfc6749', 'As RFC 6749'],
          ['minimal', 'Minimal: token alone'],
          ['odd', 'Odd: as set below'],
          ['hostile', 'Hostile: malformed, in turn'],
        ]}
        onChange={(shape) => change({ shape })}
      />
      {profile.shape === 'odd' && <Odd profile={profile} change={change} />}
      <Choice
        label="Format"
        value={profile.tokenFormat}
        options={[
          ['opaque', 'Opaque'],
          ['jwt', 'JWT'],
        ]}
        onChange={(tokenFormat) => change({ tokenFormat })}
      />
      <NumberSetting
        label="Lifetime in seconds"
        value={profile.lifetimeSeconds}
        onChange={(lifetimeSeconds) => change({ lifetimeSeconds })}
      />
      <NumberSetting
        label="Replication lag in milliseconds"
        value={profile.replicationLagMs}
        onChange={(replicationLagMs) => change({ replicationLagMs })}
      />
      <Check
        label="A new token revokes the previous one"
        checked={profile.revokePrevious}
        onChange={(revokePrevious) => change({ revokePrevious })}
      />
    </fieldset>
  );
}

function Odd({ profile, change }: Props) {
  return (
    <>
      <Choice
        label="Lifetime as"
        value={profile.odd.lifetimeAs}
        options={[
          ['number', 'Number of seconds'],
          ['string', 'String of seconds'],
          ['milliseconds', 'Number of milliseconds'],
        ]}
        onChange={(lifetimeAs) => change({ odd: { lifetimeAs } })}
      />
      <Check
        label="Names in camelCase"
        checked={profile.odd.camelCase}
        onChange={(camelCase) => change({ odd: { camelCase } })}
      />
      <Check
        label="Wrapped in data"
        checked={profile.odd.wrapped}
        onChange={(wrapped) => change({ odd: { wrapped } })}
      />
    </>
  );
}

function Errors({ profile, change }: Props) {
  return (
    <fieldset>
      <legend>An error</legend>
      <Choice
        label="Form"
        value={profile.errorForm}
        options={[
          ['rfc6749', 'RFC 6749'],
          ['problem', 'Problem details'],
          ['text', 'Plain text'],
          ['html', 'HTML'],
          ['empty', 'Empty body'],
          ['echoing', 'Quotes the request, secrets included'],
        ]}
        onChange={(errorForm) => change({ errorForm })}
      />
      <Choice
        label="A revoked access key gets"
        value={profile.revokedKey}
        options={[
          ['invalid_grant', '400 invalid_grant'],
          ['access_denied', 'access_denied'],
          ['not_found', 'not_found'],
          ['invalid_client', 'invalid_client'],
          ['token', 'A token that no resource accepts'],
        ]}
        onChange={(revokedKey) => change({ revokedKey })}
      />
      <Check
        label="Revoking it ends its tokens"
        checked={profile.revokedKeyEndsTokens}
        onChange={(revokedKeyEndsTokens) => change({ revokedKeyEndsTokens })}
      />
    </fieldset>
  );
}

/** Sent on Enter or when the field loses the focus, so that no half-typed number is sent. */
function NumberSetting(props: { label: string; value: number; onChange: (value: number) => void }) {
  return (
    <Field label={props.label}>
      {(id) => (
        <input
          id={id}
          type="text"
          inputMode="decimal"
          value={`${props.value}`}
          onChange={(event) => props.onChange(Number(event.currentTarget.value))}
        />
      )}
    </Field>
  );
}

/** What a client gets with the settings in force. */
function Examples({ profile }: { profile: Profile }) {
  const answer = usePreview({}, profile);
  const refusal = usePreview({ error: true }, profile);
  return (
    <section aria-labelledby="examples-heading" class="examples">
      <h2 id="examples-heading">Live example</h2>
      <p class="hint">A token</p>
      <Preview preview={answer} />
      <p class="hint">An error: unknown access key</p>
      <Preview preview={refusal} />
    </section>
  );
}

function FactTable({ profile }: { profile: Profile }) {
  const [facts, setFacts] = useState<readonly Fact[]>([]);
  useEffect(() => {
    ask<Fact[]>('GET', '/api/facts').then(setFacts, () => {});
  }, [profile]);
  return (
    <section class="facts-section" aria-labelledby="facts-heading">
      <h2 id="facts-heading">What the sandbox does, and on what basis</h2>
      <Scroll label="What is documented and what is assumed">
        <table>
          <thead>
            <tr>
              <th scope="col">What the sandbox does</th>
              <th scope="col">Basis</th>
            </tr>
          </thead>
          <tbody>
            {facts.map(({ statement, basis }) => (
              <tr key={statement}>
                <td>{statement}</td>
                <td>
                  <span class={`basis ${basis}`}>{basis}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
