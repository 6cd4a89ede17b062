import { useContext, useEffect } from 'preact/hooks';
import { useTick } from '../../../page-engine/hooks.ts';
import { timeOf } from '../../../page-engine/page-clock.ts';
import { Status, Table, TokenStatus } from '../../../page-engine/parts.tsx';
import { countWord, plural } from '../../../page-engine/words.ts';
import type { OwnerView } from '../../control/shapes.ts';
import { hashOf, useAddress } from './address.ts';
import { ask } from './api.ts';
import { ConnectionContext } from './connection.ts';
import type { Model } from './model.ts';
import { OwnerPage, WINDOW_MS } from './owner-page.tsx';
import { OneField, Search, Section, useFetched } from './parts.tsx';

const SHOWN = 300;

/** How often counts and tokens of the shown owners are fetched again. */
const REFRESH_MS = 3000;

/** The owners, their access keys and tokens; or one of them. */
export function Owners({ model }: { model: Model }) {
  const { params } = useAddress();
  const connection = useContext(ConnectionContext);
  const { owner = '' } = params;
  useEffect(() => connection?.look({ windowMs: WINDOW_MS, owner }), [owner]);
  return owner ? <OwnerPage key={owner} id={owner} model={model} /> : <OwnerList model={model} />;
}

function OwnerList({ model }: { model: Model }) {
  const { params } = useAddress();
  const search = params.search ?? '';
  const refresh = useTick(REFRESH_MS);
  const nowMs = timeOf(model, useTick(1000));
  const query = new URLSearchParams({ search, limit: `${SHOWN}` });
  const owners = useFetched<readonly OwnerView[]>(`/api/owners?${query}`, [], refresh, model.ownersVersion);
  return (
    <div class="two">
      <Section title={plural(model.figures.owners, 'owner')} beside={<Search label="Search" text={search} />}>
        <Table
          label="Owners"
          heads={['Owner', 'Access key', 'Token', { number: 'Requests' }]}
          looks={{ region: 'tall', table: 'stack' }}
          empty={owners.length === 0 && 'No owner matches the search.'}
        >
          {owners.map((owner) => (
            <OwnerRow key={owner.id} owner={owner} nowMs={nowMs} />
          ))}
        </Table>
        {owners.length === SHOWN && <p class="hint">The first {SHOWN} are shown. Search for others.</p>}
      </Section>
      <MoreOwners model={model} />
    </div>
  );
}

function OwnerRow({ owner, nowMs }: { owner: OwnerView; nowMs: number }) {
  const { id, name, enabled, accessKeys, tokenRequests, coveredUntilMs } = owner;
  const usable = enabled && accessKeys.some((key) => key.enabled && !key.revoked);
  return (
    <tr>
      <th scope="row">
        <a class="id" href={hashOf('owners', { owner: id })}>
          {id}
        </a>
        <span class="hint block">{name}</span>
      </th>
      <td data-word="Access key">
        <Status good={usable}>{keyWord(owner)}</Status>
      </td>
      <td data-word="Token">
        <TokenStatus endMs={coveredUntilMs} nowMs={nowMs} none="none" />
      </td>
      <td data-word="Requests" class="number">
        {countWord(tokenRequests)}
      </td>
    </tr>
  );
}

function keyWord({ enabled, accessKeys }: OwnerView): string {
  if (!enabled) return 'owner disabled';
  if (accessKeys.length === 0) return 'none';
  if (accessKeys.some((key) => key.enabled && !key.revoked)) return 'usable';
  return accessKeys.every(({ revoked }) => revoked) ? 'revoked' : 'disabled';
}

function MoreOwners({ model }: { model: Model }) {
  const add = async (name: string) => {
    const owner = await ask<OwnerView>('POST', '/api/owners', { ...(name && { name }) });
    location.hash = hashOf('owners', { owner: owner.id });
    return `${owner.id} was added, with an access key.`;
  };
  const seed = async (count: string) => {
    const { owners } = await ask<{ owners: number }>('POST', '/api/seed', { owners: Number(count) });
    return `There are ${plural(owners, 'owner')}.`;
  };
  return (
    <Section title="More owners">
      <OneField label="Name" button="Add owner" act={add} />
      <OneField
        label={`Create owners up to (${countWord(model.figures.owners)} now)`}
        button="Create"
        start="200"
        act={seed}
      />
    </Section>
  );
}
