import { useEffect, useState } from 'preact/hooks';
import { useTick } from '../../../page-engine/hooks.ts';
import { standsStill, timeOf } from '../../../page-engine/page-clock.ts';
import { Status, Table, TokenStatus } from '../../../page-engine/parts.tsx';
import { Picture } from '../../../page-engine/picture.tsx';
import type { Span } from '../../../page-engine/time-rail.tsx';
import { countWord, plural } from '../../../page-engine/words.ts';
import type { AccessKeyView, CredentialsView, LedgerEntry, OwnerView } from '../../control/shapes.ts';
import { hashOf, useSelected } from './address.ts';
import { ask, send, tellFailure } from './api.ts';
import { useTry } from './connect-panel.tsx';
import { type Model, secondsOf } from './model.ts';
import { Action, CopyButton, DescriptionList, Toggle, useFetched } from './parts.tsx';
import { Requests } from './requests.tsx';

const REFRESH_MS = 3000;

/** The window of an owner's lane. */
export const WINDOW_MS = 300_000;

/** A part of the window is shown on the Live screen. */
const zoom = (search: string, { fromMs, toMs }: Span): void => {
  const [window, until] = [Math.round(toMs - fromMs), Math.round(toMs)];
  location.hash = hashOf('live', { search, window: `${window}`, until: `${until}` });
};

/** One owner: its lane, requests, access keys and actions. */
export function OwnerPage({ id, model }: { id: string; model: Model }) {
  const [owner, setOwner] = useState<OwnerView | undefined>();
  const [problem, setProblem] = useState('');
  const [selected, select] = useSelected();
  const refresh = useTick(REFRESH_MS);
  const query = new URLSearchParams({ owner: id, limit: '100' });
  const known = useFetched<readonly LedgerEntry[]>(`/api/requests?${query}`, [], refresh, model.ownersVersion);
  useEffect(() => {
    ask<OwnerView>('GET', `/api/owners/${encodeURIComponent(id)}`).then(setOwner, (error) =>
      setProblem(tellFailure(error)),
    );
  }, [id, refresh, model.ownersVersion]);
  const lane = model.lanes.find((each) => each.id === id);
  const news = model.requests.filter(({ owner: of }) => of === id);
  const requests = [...new Map([...known, ...news].map((entry) => [entry.id, entry])).values()].sort(
    (a, b) => a.id - b.id,
  );
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
          <Picture
            lanes={[lane]}
            seconds={secondsOf(lane)}
            bands={model.bands}
            windowMs={WINDOW_MS}
            nowMs={() => timeOf(model, performance.now())}
            still={standsStill(model)}
            selected={selected}
            onSelect={select}
            onZoom={(span) => span && zoom(id, span)}
            hrefOf={(owner) => hashOf('owners', { owner })}
          />
        </div>
      )}
      <div class="two">
        {owner && <OwnerState owner={owner} model={model} />}
        <div>
          <Requests requests={requests} ofOneOwner={true} url={model.url} />
        </div>
      </div>
    </>
  );
}

function OwnerState({ owner, model }: { owner: OwnerView; model: Model }) {
  const { id, enabled, tokenRequests, coveredUntilMs } = owner;
  const [tried, sendOne] = useTry(id);
  const nowMs = timeOf(model, useTick(1000));
  return (
    <section aria-label={`State of ${id}`}>
      <DescriptionList
        rows={[
          ['State', <Status good={enabled}>{enabled ? 'enabled' : 'disabled'}</Status>],
          ['Token', <TokenStatus endMs={coveredUntilMs} nowMs={nowMs} none="none" />],
          ['Requests', `${countWord(tokenRequests)} for a token`],
        ]}
      />
      <div class="row owner-actions">
        <Action look="main" act={sendOne}>
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
        <Toggle path={`/api/owners/${id}`} name={id} enabled={enabled} />
      </div>
      {tried}
      <AccessKeys owner={owner} />
    </section>
  );
}

function AccessKeys({ owner }: { owner: OwnerView }) {
  return (
    <>
      <div class="row heading">
        <h3>Access keys</h3>
        <Action act={() => send(`${owner.id} has a new access key.`, 'POST', `/api/owners/${owner.id}/keys`)}>
          New key
        </Action>
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
      <Table label="Access keys" heads={['Fingerprint', 'State', { hidden: 'Change' }]}>
        {owner.accessKeys.map((key) => (
          <KeyRow key={key.id} accessKey={key} />
        ))}
      </Table>
    </>
  );
}

function KeyRow({ accessKey }: { accessKey: AccessKeyView }) {
  const { id, fingerprint, enabled, revoked } = accessKey;
  return (
    <tr>
      <th scope="row">
        <code>{fingerprint}</code>
      </th>
      <td>
        <Status good={enabled && !revoked}>{revoked ? 'revoked' : enabled ? 'enabled' : 'disabled'}</Status>
      </td>
      <td>
        {!revoked && (
          <div class="row tight">
            <Toggle path={`/api/keys/${id}`} name={`access key ${fingerprint}`} enabled={enabled} />
            <Action
              look="quiet"
              label={`Revoke access key ${fingerprint}`}
              act={() => send('The access key is revoked.', 'POST', `/api/keys/${id}/revoke`)}
            >
              Revoke
            </Action>
          </div>
        )}
      </td>
    </tr>
  );
}
