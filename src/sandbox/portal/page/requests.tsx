import type { ComponentChildren } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import { Choice, Mark, Scroll, Table } from '../../../page-engine/parts.tsx';
import { clockWord, spanWord, timeWord } from '../../../page-engine/words.ts';
import type { CredentialsView, LedgerEntry } from '../../control/shapes.ts';
import { hasFailed, markOf } from '../../state/ledger/marks.ts';
import { setParams, useAddress, useSelected } from './address.ts';
import { ask, tellFailure } from './api.ts';
import { useTry } from './connect-panel.tsx';
import { curlOf } from './curl.ts';
import { Action, Check, CopyButton, DescriptionList, Detail, Say, Section } from './parts.tsx';
import { faultKindWord, outcomeWord, ownerWord, whyWord } from './words.ts';

const SHOWN = 40;

const NONE_YET = 'Requests appear here as they arrive.';

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
      return hasFailed(entry);
    case 'wasted':
      return entry.wasted;
  }
}

/**
 * The last requests, newest first, below the details of the selected one. Enter or a click selects one; the arrow keys move
 * between them.
 */
export function Requests(props: {
  requests: readonly LedgerEntry[];
  /** Whether they are all of one owner, which then needs no column. */
  ofOneOwner?: boolean;
  /** Of the token plane. */
  url: string;
  children?: ComponentChildren;
}) {
  const { requests, ofOneOwner = false, url } = props;
  const { params } = useAddress();
  const [selected, select] = useSelected();
  const filter: Filter = FILTERS.find(([value]) => value === params.filter)?.[0] ?? 'tokens';
  const shown = requests
    .filter((entry) => passes(entry, filter))
    .slice(-SHOWN)
    .reverse();
  const stop = shown.some(({ id }) => id === selected) ? selected : shown[0]?.id;
  const filterChoice = (
    <Choice label="Show" value={filter} options={FILTERS} onChange={(value) => setParams({ filter: value })} />
  );
  return (
    <>
      {selected !== undefined && (
        <RequestDetail
          key={selected}
          id={selected}
          known={requests.findLast(({ id }) => id === selected)}
          url={url}
          onClose={() => select(undefined)}
        />
      )}
      <Section title="Requests" class="requests" beside={filterChoice}>
        {props.children}
        <Table
          label="The last requests"
          heads={['Time', ...(ofOneOwner ? [] : ['Owner']), 'Outcome', { number: 'Status' }, { number: 'Took' }]}
          empty={shown.length === 0 && (requests.length === 0 ? NONE_YET : 'No request passes this filter.')}
          onKeyDown={moveBetweenRows}
        >
          {shown.map((entry) => (
            <RequestRow
              key={entry.id}
              entry={entry}
              ofOneOwner={ofOneOwner}
              chosen={entry.id === selected}
              stop={entry.id === stop}
              onSelect={select}
            />
          ))}
        </Table>
      </Section>
    </>
  );
}

/** The arrow keys move between the rows: the list is one tab stop. */
function moveBetweenRows(event: KeyboardEvent): void {
  const row = (event.target as Element).closest('tr');
  const to = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling }[event.key as 'ArrowUp'];
  const target = to?.querySelector('button');
  if (!target) return;
  event.preventDefault();
  target.focus();
}

function RequestRow(props: {
  entry: LedgerEntry;
  ofOneOwner: boolean;
  chosen: boolean;
  stop: boolean;
  onSelect: (id: number | undefined) => void;
}) {
  const { entry, ofOneOwner, chosen, stop, onSelect } = props;
  return (
    <tr class={chosen ? 'chosen opens' : 'opens'} onClick={() => onSelect(chosen ? undefined : entry.id)}>
      <td>
        <button type="button" class="link number" id={rowId(entry.id)} aria-pressed={chosen} tabIndex={stop ? 0 : -1}>
          {clockWord(entry.atMs)}
        </button>
      </td>
      {!ofOneOwner && <td title={entry.owner}>{ownerWord(entry.owner ?? '')}</td>}
      <td title={whyWord(entry)}>
        <Mark kind={markOf(entry)} /> {outcomeWord(entry)}
      </td>
      <td class="number">{entry.status ?? ''}</td>
      <td class="number">{entry.durationMs === undefined ? '' : spanWord(entry.durationMs)}</td>
    </tr>
  );
}

/** Everything known about one request, and how to repeat it. `known`: its entry in the list, if it is there. */
function RequestDetail(props: { id: number; known: LedgerEntry | undefined; url: string; onClose: () => void }) {
  const { id, known, url, onClose } = props;
  const [fetched, setFetched] = useState<LedgerEntry | undefined>();
  const [problem, setProblem] = useState('');
  useEffect(() => {
    if (known) return;
    ask<LedgerEntry>('GET', `/api/requests/${id}`).then(setFetched, (error) => setProblem(tellFailure(error)));
  }, [id, known === undefined]);
  const entry = known ?? fetched;
  return (
    <Detail title={`Request ${id}`} from={rowId(id)} onClose={onClose}>
      {entry ? <RequestDescription entry={entry} url={url} /> : <p class="hint">{problem || 'Loading…'}</p>}
    </Detail>
  );
}

function RequestDescription({ entry, url }: { entry: LedgerEntry; url: string }) {
  const say = useContext(Say);
  const [withSecrets, setWithSecrets] = useState(false);
  const [secrets, setSecrets] = useState<CredentialsView | undefined>();
  const given = secrets && withSecrets && secrets.owner === entry.owner ? secrets : undefined;
  const show = async (wanted: boolean) => {
    setWithSecrets(wanted);
    if (wanted) setSecrets(await ask<CredentialsView>('GET', `/api/credentials?owner=${entry.owner}`));
  };
  const command = curlOf(entry, url, given);
  const why = whyWord(entry);
  return (
    <>
      {why && <p class="why">{why}</p>}
      <DescriptionList rows={factsOf(entry)} />
      <SendAgain entry={entry} />
      <Scroll label="The request as a command">
        <pre>{command}</pre>
      </Scroll>
      <div class="row">
        <CopyButton text={() => command}>Copy as curl</CopyButton>
        {entry.kind === 'token' && entry.owner && (
          <Check
            label="With secrets"
            checked={withSecrets}
            onChange={(wanted) => void show(wanted).catch((error) => say(`Not done: ${tellFailure(error)}`))}
          />
        )}
      </div>
    </>
  );
}

/** Sends the request again, as far as the sandbox knows it: with the current credentials of its owner. */
function SendAgain({ entry: { owner } }: { entry: LedgerEntry }) {
  const [tried, sendAgain] = useTry(owner);
  if (!owner) return <p class="hint">It cannot be sent again from here: the sandbox does not know its access key.</p>;
  return (
    <div class="again">
      <div class="row">
        <Action act={sendAgain}>Send again</Action>
        <span class="hint">With the current credentials of {owner}, and once to /echo.</span>
      </div>
      {tried}
    </div>
  );
}

const rowId = (id: number): string => `request-${id}`;

function factsOf(entry: LedgerEntry): [name: string, value: string | undefined][] {
  const { kind, method, status, error, field, durationMs, fault, faultKind, tokenExpiresAtMs, retryAfterSeconds } =
    entry;
  const path = { token: '/auth/v1/token', echo: '/echo', other: 'another path' }[kind];
  return [
    ['Outcome', outcomeWord(entry)],
    ['Request', `${method} ${path}`],
    ['Time', clockWord(entry.atMs)],
    ['Duration', durationMs === undefined ? undefined : spanWord(durationMs)],
    ['Owner', entry.owner],
    ['Access key', entry.accessKey && `fingerprint ${entry.accessKey}`],
    ['Status', status === undefined ? undefined : `${status}`],
    ['Retry-After', retryAfterSeconds === undefined ? undefined : `${retryAfterSeconds} s`],
    ['Error', error && (field ? `${error}, field ${field}` : error)],
    ['Token', entry.token && `fingerprint ${entry.token}`],
    ['Expires at', tokenExpiresAtMs === undefined ? undefined : timeWord(tokenExpiresAtMs)],
    ['Fault', faultKind && `${faultKindWord(faultKind)}, rule ${fault}`],
    ['Wasted', entry.wasted ? 'yes: the owner had a good token' : undefined],
  ];
}
