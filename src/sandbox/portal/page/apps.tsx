import { useState } from 'preact/hooks';
import { Scroll, State } from '../../../picture/parts.tsx';
import { spanWord } from '../../../picture/words.ts';
import type { AppView } from '../../control/shapes.ts';
import { ask } from './api.ts';
import { type Model, timeOf } from './model.ts';
import { Action, Field, useAction, useTick } from './parts.tsx';

/** The integration apps and their credentials. */
export function Apps({ model }: { model: Model }) {
  const nowMs = timeOf(model, useTick(1000));
  const [name, setName] = useState('');
  const [busy, run] = useAction();
  const add = async () => {
    const app = await ask<AppView>('POST', '/api/apps', name.trim() === '' ? {} : { name: name.trim() });
    setName('');
    return `${app.id} was added.`;
  };
  return (
    <>
      <p class="lead">
        An app is an integration: it requests tokens with a client id and a secret, for the owners that gave it an
        access key.
      </p>
      <Scroll label="Apps">
        <table class="stack">
          <thead>
            <tr>
              <th scope="col">App</th>
              <th scope="col">Client id</th>
              <th scope="col">State</th>
              <th scope="col">Client secrets</th>
              <th scope="col">Change</th>
            </tr>
          </thead>
          <tbody>
            {model.apps.map((app) => (
              <AppRow key={app.id} app={app} nowMs={nowMs} />
            ))}
          </tbody>
        </table>
      </Scroll>
      <form
        class="row end"
        onSubmit={(event) => {
          event.preventDefault();
          run(add);
        }}
      >
        <Field label="Name of another app">
          {(id) => <input id={id} type="text" value={name} onInput={(event) => setName(event.currentTarget.value)} />}
        </Field>
        <button type="submit" aria-busy={busy}>
          Add app
        </button>
      </form>
    </>
  );
}

function AppRow({ app, nowMs }: { app: AppView; nowMs: number }) {
  const { id, name, clientId, enabled, secrets } = app;
  const rotate = (overlapMs: number) => async () => {
    await ask('POST', `/api/apps/${id}/rotate`, { overlapMs });
    return overlapMs > 0
      ? `A new secret; the old one ends in ${spanWord(overlapMs)}.`
      : 'A new secret; the old one ended.';
  };
  return (
    <tr>
      <th scope="row">
        {id}
        {name !== id && <span class="hint block">{name}</span>}
      </th>
      <td data-word="Client id">
        <code>{clientId}</code>
      </td>
      <td data-word="State">
        <State good={enabled}>{enabled ? 'enabled' : 'disabled'}</State>
      </td>
      <td data-word="Secrets">
        {secrets.map(({ fingerprint, goodUntilMs }) => (
          <span key={fingerprint} class="block">
            <code>{fingerprint}</code>
            {goodUntilMs !== undefined &&
              (goodUntilMs > nowMs ? `, ends in ${spanWord(goodUntilMs - nowMs)}` : ', ended')}
          </span>
        ))}
      </td>
      <td>
        <div class="row tight">
          <Action look="quiet" label={`Rotate secret of ${id}`} act={rotate(0)}>
            Rotate secret
          </Action>
          <Action look="quiet" label={`Rotate, 5 min overlap, the secret of ${id}`} act={rotate(300_000)}>
            Rotate, 5 min overlap
          </Action>
          <Action
            look="quiet"
            label={`${enabled ? 'Disable' : 'Enable'} ${id}`}
            act={async () => {
              await ask('PATCH', `/api/apps/${id}`, { enabled: !enabled });
              return `${id} is ${enabled ? 'disabled' : 'enabled'}.`;
            }}
          >
            {enabled ? 'Disable' : 'Enable'}
          </Action>
        </div>
      </td>
    </tr>
  );
}
