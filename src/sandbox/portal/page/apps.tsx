import { useTick } from '../../../page-engine/hooks.ts';
import { timeOf } from '../../../page-engine/page-clock.ts';
import { Status, Table } from '../../../page-engine/parts.tsx';
import { spanWord } from '../../../page-engine/words.ts';
import type { AppView } from '../../control/shapes.ts';
import { ask } from './api.ts';
import type { Model } from './model.ts';
import { Action, OneField, Toggle } from './parts.tsx';

/** The integration apps and their credentials. */
export function Apps({ model }: { model: Model }) {
  const nowMs = timeOf(model, useTick(1000));
  const add = async (name: string) => {
    const app = await ask<AppView>('POST', '/api/apps', { ...(name && { name }) });
    return `${app.id} was added.`;
  };
  return (
    <>
      <p class="lead">
        An app is an integration: it requests tokens with a client id and a secret, for the owners that gave it an
        access key.
      </p>
      <Table label="Apps" heads={['App', 'Client id', 'State', 'Client secrets', 'Change']} looks={{ table: 'stack' }}>
        {model.apps.map((app) => (
          <AppRow key={app.id} app={app} nowMs={nowMs} />
        ))}
      </Table>
      <OneField label="Name of another app" button="Add app" act={add} />
    </>
  );
}

function AppRow({ app, nowMs }: { app: AppView; nowMs: number }) {
  const { id, name, clientId, enabled, secrets } = app;
  const rotate = (overlapMs: number) => async () => {
    await ask('POST', `/api/apps/${id}/rotate`, { overlapMs });
    return overlapMs > 0
      ? `A new secret; the old one ends in ${spanWord(overlapMs)}.`
      : 'New secret issued; the old one no longer works.';
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
        <Status good={enabled}>{enabled ? 'enabled' : 'disabled'}</Status>
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
          <Toggle path={`/api/apps/${id}`} name={id} enabled={enabled} />
        </div>
      </td>
    </tr>
  );
}
