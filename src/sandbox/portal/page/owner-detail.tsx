import { useState } from 'preact/hooks';
import type { AccessKeyView, CredentialsView, OwnerView, TryView } from '../../api-types.ts';
import { ask } from './api.ts';
import { TokenState } from './lanes-table.tsx';
import type { Model } from './model.ts';
import { Action, CopyButton, Detail, Scroll, State } from './parts.tsx';
import { plural } from './words.ts';

/** One owner, and all that can happen to it. */
export function OwnerDetail(props: { owner: OwnerView; model: Model; nowMs: number; onClose: () => void }) {
  const { owner, model, nowMs } = props;
  const { id, name, enabled } = owner;
  const [tried, setTried] = useState<TryView | undefined>();
  return (
    <Detail title={id} from={`row-of-${id}`} onClose={props.onClose}>
      <dl class="facts">
        <div>
          <dt>Name</dt>
          <dd>{name}</dd>
        </div>
        <div>
          <dt>State</dt>
          <dd>
            <State good={enabled}>{enabled ? 'enabled' : 'disabled'}</State>
          </dd>
        </div>
        <div>
          <dt>Token</dt>
          <dd>
            <TokenState lane={model.lanes.get(id)} nowMs={nowMs} />
          </dd>
        </div>
      </dl>
      <div class="row">
        <Action
          look="main"
          act={async () => {
            setTried(await ask<TryView>('POST', '/api/try', { owner: id }));
            return 'One request was sent.';
          }}
        >
          Send one request
        </Action>
        <Action
          act={async () => {
            const { revoked } = await ask<{ revoked: number }>('POST', '/api/tokens/revoke', { owner: id });
            return `${plural(revoked, 'token')} revoked.`;
          }}
        >
          Revoke tokens
        </Action>
        <Action
          act={async () => {
            await ask('PATCH', `/api/owners/${id}`, { enabled: !enabled });
            return `${id} is ${enabled ? 'disabled' : 'enabled'}.`;
          }}
        >
          {enabled ? 'Disable owner' : 'Enable owner'}
        </Action>
      </div>
      {tried && (
        <p>
          {tried.socketError ? `No answer: ${tried.socketError}.` : `Token request: ${tried.status}.`}
          {tried.echoStatus !== undefined && ` /echo: ${tried.echoStatus}.`}
        </p>
      )}
      <AccessKeys owner={owner} model={model} />
    </Detail>
  );
}

function AccessKeys({ owner, model }: { owner: OwnerView; model: Model }) {
  return (
    <>
      <div class="row heading">
        <h3>Access keys</h3>
        {model.apps.map((app) => (
          <Action
            key={app.id}
            act={async () => {
              await ask('POST', `/api/owners/${owner.id}/keys`, { app: app.id });
              return `${owner.id} has a new access key.`;
            }}
          >
            {model.apps.length === 1 ? 'New key' : `New key for ${app.id}`}
          </Action>
        ))}
        {owner.accessKeys.length > 0 && (
          <CopyButton
            text={async () => {
              const query = new URLSearchParams({ owner: owner.id });
              return (await ask<CredentialsView>('GET', `/api/credentials?${query}`)).accessKey;
            }}
          >
            Copy current key
          </CopyButton>
        )}
      </div>
      <Scroll label="Access keys">
        <table>
          <thead>
            <tr>
              <th scope="col">Fingerprint</th>
              <th scope="col">App</th>
              <th scope="col">State</th>
              <th scope="col">
                <span class="hidden">Change</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {owner.accessKeys.map((key) => (
              <KeyRow key={key.id} accessKey={key} />
            ))}
          </tbody>
        </table>
      </Scroll>
    </>
  );
}

function KeyRow({ accessKey }: { accessKey: AccessKeyView }) {
  const { id, fingerprint, app, enabled, revoked } = accessKey;
  return (
    <tr>
      <th scope="row">
        <code>{fingerprint}</code>
      </th>
      <td>{app}</td>
      <td>
        <State good={enabled && !revoked}>{revoked ? 'revoked' : enabled ? 'enabled' : 'disabled'}</State>
      </td>
      <td>
        {!revoked && (
          <div class="row tight">
            <Action
              look="quiet"
              label={`${enabled ? 'Disable' : 'Enable'} access key ${fingerprint}`}
              act={async () => {
                await ask('PATCH', `/api/keys/${id}`, { enabled: !enabled });
                return `The access key is ${enabled ? 'disabled' : 'enabled'}.`;
              }}
            >
              {enabled ? 'Disable' : 'Enable'}
            </Action>
            <Action
              look="quiet"
              label={`Revoke access key ${fingerprint}`}
              act={async () => {
                await ask('POST', `/api/keys/${id}/revoke`);
                return 'The access key is revoked.';
              }}
            >
              Revoke
            </Action>
          </div>
        )}
      </td>
    </tr>
  );
}
