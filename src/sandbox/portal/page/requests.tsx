import { useState } from 'preact/hooks';
import type { CredentialsView, LedgerEntry } from '../../api-types.ts';
import { ask } from './api.ts';
import { curlOf } from './curl.ts';
import { Check, Choice, CopyButton, Detail, Mark, Scroll } from './parts.tsx';
import { faultKindWord, isGood, markOf, outcomeWord, ownerWord, spanWord, timeWord } from './words.ts';

const SHOWN = 40;

const FILTERS = [
  ['tokens', 'Token requests'],
  ['all', 'All requests'],
  ['failed', 'Failed'],
  ['wasted', 'Wasted'],
] as const;

type Filter = (typeof FILTERS)[number][0];

function passes(entry: LedgerEntry, filter: Filter): boolean {
  switch (filter) {
    case 'all':
      return true;
    case 'tokens':
      return entry.kind === 'token';
    case 'failed':
      return !isGood(entry) && entry.outcome !== 'pending';
    case 'wasted':
      return entry.wasted;
  }
}

/** The last requests, the newest first. Choosing one shows it in detail. */
export function RequestList(props: {
  requests: readonly LedgerEntry[];
  selected: number | undefined;
  onSelect: (id: number | undefined) => void;
}) {
  const { requests, selected, onSelect } = props;
  const [filter, setFilter] = useState<Filter>('tokens');
  const shown = requests
    .filter((entry) => passes(entry, filter))
    .slice(-SHOWN)
    .reverse();
  return (
    <section class="requests" aria-labelledby="requests-heading">
      <div class="row heading">
        <h2 id="requests-heading">Requests</h2>
        <Choice label="Show" value={filter} options={FILTERS} onChange={setFilter} />
      </div>
      <Scroll label="The last requests">
        <table>
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col">Owner</th>
              <th scope="col">Outcome</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((entry) => (
              <RequestRow key={entry.id} entry={entry} chosen={entry.id === selected} onSelect={onSelect} />
            ))}
          </tbody>
        </table>
        {shown.length === 0 && <p class="hint empty">No such request yet.</p>}
      </Scroll>
    </section>
  );
}

function RequestRow(props: { entry: LedgerEntry; chosen: boolean; onSelect: (id: number | undefined) => void }) {
  const { entry, chosen, onSelect } = props;
  return (
    <tr class={chosen ? 'chosen' : undefined}>
      <td>
        <button
          type="button"
          class="link number"
          id={rowId(entry.id)}
          aria-pressed={chosen}
          onClick={() => onSelect(chosen ? undefined : entry.id)}
        >
          {timeWord(entry.atMs)}
        </button>
      </td>
      <td>{ownerWord(entry.owner ?? '')}</td>
      <td>
        <Mark kind={markOf(entry)} /> {outcomeWord(entry)}
      </td>
    </tr>
  );
}

/** All that is known of one request, and how to send it again. */
export function RequestDetail({ entry, url, onClose }: { entry: LedgerEntry; url: string; onClose: () => void }) {
  const [withSecrets, setWithSecrets] = useState(false);
  const [secrets, setSecrets] = useState<CredentialsView | undefined>();
  const given = secrets && withSecrets && secrets.owner === entry.owner ? secrets : undefined;
  const show = async (wanted: boolean) => {
    setWithSecrets(wanted);
    if (wanted) setSecrets(await ask<CredentialsView>('GET', credentialsPath(entry)));
  };
  const command = curlOf(entry, url, given);
  return (
    <Detail title={`Request ${entry.id}`} from={rowId(entry.id)} onClose={onClose}>
      <dl class="facts">
        {factsOf(entry).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <Scroll label="The request as a command">
        <pre>{command}</pre>
      </Scroll>
      <div class="row">
        <CopyButton text={() => command}>Copy as curl</CopyButton>
        {entry.kind === 'token' && entry.owner && (
          <Check label="With secrets" checked={withSecrets} onChange={(wanted) => void show(wanted).catch(() => {})} />
        )}
      </div>
    </Detail>
  );
}

const rowId = (id: number): string => `request-${id}`;

function credentialsPath({ owner, app }: LedgerEntry): string {
  const query = new URLSearchParams({ ...(owner && { owner }), ...(app && { app }) });
  return `/api/credentials?${query}`;
}

function factsOf(entry: LedgerEntry): [name: string, value: string][] {
  const { kind, method, status, error, field, durationMs, fault, faultKind, tokenExpiresAtMs } = entry;
  const path = { token: '/auth/v1/token', echo: '/echo', other: 'another path' }[kind];
  const facts: [string, string | undefined][] = [
    ['Outcome', outcomeWord(entry)],
    ['Request', `${method} ${path}`],
    ['Time', timeWord(entry.atMs)],
    ['Took', durationMs === undefined ? undefined : spanWord(durationMs)],
    ['Owner', entry.owner],
    ['App', entry.app],
    ['Access key', entry.accessKey && `fingerprint ${entry.accessKey}`],
    ['Status', status === undefined ? undefined : `${status}`],
    ['Error', error && (field ? `${error}, field ${field}` : error)],
    ['Token', entry.token && `fingerprint ${entry.token}`],
    ['Token ends', tokenExpiresAtMs === undefined ? undefined : timeWord(tokenExpiresAtMs)],
    ['Fault', faultKind && `${faultKindWord(faultKind)}, rule ${fault}`],
    ['Wasted', entry.wasted ? 'yes: the owner had a good token' : undefined],
  ];
  return facts.filter((fact): fact is [string, string] => fact[1] !== undefined && fact[1] !== '');
}
