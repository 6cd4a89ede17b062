import { useEffect, useState } from 'preact/hooks';
import type { AccessKeyView, CredentialsView, OwnerView, TryView } from '../../api-types.ts';
import { hashOf, setParams, useAddress } from './address.ts';
import { ask, tellFailure } from './api.ts';
import { Tried } from './connect-panel.tsx';
import { LanesPicture } from './lanes-picture.tsx';
import { TokenState } from './lanes-table.tsx';
import { type Model, ofLane, timeOf } from './model.ts';
import { Action, CopyButton, Facts, Scroll, State, useTick } from './parts.tsx';
import { RequestDetail, RequestList } from './requests.tsx';
import { countWord, plural } from './words.ts';

const REFRESH_MS = 3000;

/** One owner: its lane, requests, access keys and actions. */
export function OwnerPage({ id, model }: { id: string; model: Model }) {
  const [owner, setOwner] = useState<OwnerView | undefined>();
  const [problem, setProblem] = useState('');
  const { params } = useAddress();
  const selected = Number(params.request) || undefined;
  const select = (request: number | undefined) => setParams({ request: request?.toString() });
  const refresh = useTick(REFRESH_MS);
  useEffect(() => {
    ask<OwnerView>('GET', `/api/owners/${encodeURIComponent(id)}`).then(setOwner, (error) =>
      setProblem(tellFailure(error)),
    );
  }, [id, refresh, model.ownersVersion]);
  const lane = model.lanes.get(id);
  return (
    <>
      <p>
        <a href={hashOf('owners')}>All owners</a>
      </p>
      <h2 class="title" tabIndex={-1}>
        {id} {owner && owner.name !== id && <span class="hint">{owner.name}</span>}
      </h2>
      {problem && !owner && <p class="empty">{problem}</p>}
      {lane && (
        <div class="one-lane">
          <LanesPicture
            model={ofLane(model, lane)}
            selected={selected}
            lanes={[lane]}
            windowMs={300_000}
            calls={true}
            heldAtMs={undefined}
            onSelect={select}
          />
        </div>
      )}
      <div class="two">
        {owner && <OwnerState owner={owner} model={model} />}
        <div>
          {selected !== undefined && (
            <RequestDetail
              key={selected}
              id={selected}
              known={lane?.requests.findLast((entry) => entry.id === selected)}
              url={model.url}
              onClose={() => select(undefined)}
            />
          )}
          <RequestList requests={lane?.requests ?? []} ofOneOwner={true} selected={selected} onSelect={select} />
        </div>
      </div>
    </>
  );
}

function OwnerState({ owner, model }: { owner: OwnerView; model: Model }) {
  const { id, enabled, tokenRequests, coveredUntilMs } = owner;
  const [tried, setTried] = useState<TryView | undefined>();
  const nowMs = timeOf(model, useTick(1000));
  return (
    <section aria-label={`State of ${id}`}>
      <Facts
        rows={[
          ['State', <State good={enabled}>{enabled ? 'enabled' : 'disabled'}</State>],
          ['Token', <TokenState endMs={coveredUntilMs} nowMs={nowMs} none="none" />],
          ['Requests', `${countWord(tokenRequests)} for a token`],
        ]}
      />
      <div class="row owner-actions">
        <Action
          look="main"
          act={async () => {
            setTried(await ask<TryView>('POST', '/api/try', { owner: id }));
            return '1 request was sent.';
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
      {tried && <Tried tried={tried} />}
      <AccessKeys owner={owner} model={model} />
    </section>
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
