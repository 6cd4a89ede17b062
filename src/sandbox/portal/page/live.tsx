import { useContext, useEffect, useState } from 'preact/hooks';
import { MARK_KINDS } from '../../state/marks.ts';
import { setParams, useAddress } from './address.ts';
import { ConnectPanel } from './connect-panel.tsx';
import { ConnectionContext } from './connection.ts';
import { Figures } from './figures.tsx';
import { LanesPicture } from './lanes-picture.tsx';
import { LanesTable } from './lanes-table.tsx';
import { type Lane, type Model, timeOf } from './model.ts';
import { Check, Choice, Mark } from './parts.tsx';
import { RequestDetail, RequestList } from './requests.tsx';
import { ScenarioBar } from './scenario-bar.tsx';
import { countWord, MARK_WORDS } from './words.ts';

const WINDOWS = [
  ['60000', '1 min'],
  ['300000', '5 min'],
  ['900000', '15 min'],
  ['3600000', '1 h'],
  ['14400000', '4 h'],
] as const;

type Window = (typeof WINDOWS)[number][0];

/** Shows what the integration does, as it happens. */
export function Live({ model: latest }: { model: Model }) {
  const connection = useContext(ConnectionContext);
  const { params } = useAddress();
  const [held, setHeld] = useState<{ model: Model; atMs: number } | undefined>();
  const model = held?.model ?? latest;
  const window: Window = WINDOWS.find(([value]) => value === params.window)?.[0] ?? '60000';
  const windowMs = Number(window);
  const search = params.search ?? '';
  const selected = Number(params.request) || undefined;
  const select = (id: number | undefined) => setParams({ request: id?.toString() });
  useEffect(() => connection?.look({ windowMs, search, owner: '' }), [windowMs, search]);
  const hold = () => setHeld(held ? undefined : { model: latest, atMs: timeOf(latest, performance.now()) });
  return (
    <div class="live">
      <ConnectPanel model={latest} />
      <Figures model={latest} windowMs={windowMs} />
      <ScenarioBar model={latest} />
      <Lanes {...{ model, window, search, selected }} heldAtMs={held?.atMs} onHold={hold} onSelect={select} />
      <div class="beside">
        {selected !== undefined && (
          <RequestDetail
            key={selected}
            id={selected}
            known={model.requests.findLast(({ id }) => id === selected)}
            url={model.url}
            onClose={() => select(undefined)}
          />
        )}
        <RequestList requests={model.requests} selected={selected} onSelect={select} />
      </div>
    </div>
  );
}

function Lanes(props: {
  model: Model;
  window: Window;
  search: string;
  heldAtMs: number | undefined;
  onHold: () => void;
  selected: number | undefined;
  onSelect: (id: number) => void;
}) {
  const { model, window, search, heldAtMs, selected, onSelect } = props;
  const { params } = useAddress();
  const calls = params.calls === '1';
  const asTable = params.as === 'table';
  const windowMs = Number(window);
  const wanted = search.trim().toLowerCase();
  const lanes: Lane[] = [...model.lanes.values()].filter(
    ({ id, name }) => id.toLowerCase().includes(wanted) || name.toLowerCase().includes(wanted),
  );
  const shown = [...model.lanes.keys()].filter((id) => id !== '').length;
  return (
    <section class="lanes-section" aria-labelledby="lanes-heading">
      <div class="row heading">
        <h2 id="lanes-heading">Lanes</h2>
        <fieldset class="switch">
          <legend class="hidden">Show as</legend>
          {[false, true].map((table) => (
            <button
              key={`${table}`}
              type="button"
              aria-pressed={asTable === table}
              onClick={() => setParams({ as: table ? 'table' : undefined })}
            >
              {table ? 'Table' : 'Picture'}
            </button>
          ))}
        </fieldset>
        <button type="button" aria-pressed={heldAtMs !== undefined} onClick={props.onHold}>
          Hold
        </button>
        <Choice label="Last" value={window} options={WINDOWS} onChange={(value) => setParams({ window: value })} />
        <label class="inline">
          <span>Owner</span>
          <input
            type="search"
            data-search="true"
            value={search}
            onInput={(event) => setParams({ search: event.currentTarget.value })}
          />
        </label>
        <Check label="Calls to /echo" checked={calls} onChange={(on) => setParams({ calls: on ? '1' : undefined })} />
      </div>
      {!asTable && <Legend />}
      {model.matching > shown && shown > 0 && (
        <p class="hint worst">
          The {countWord(shown)} worst of {countWord(model.matching)} owners: failures first, then waste. Search for
          others.
        </p>
      )}
      {asTable ? (
        <LanesTable lanes={lanes} nowMs={heldAtMs ?? timeOf(model, performance.now())} windowMs={windowMs} />
      ) : (
        <LanesPicture {...{ model, lanes, windowMs, calls, heldAtMs, selected, onSelect }} />
      )}
      {lanes.length === 0 && <p class="empty">No owner matches the search.</p>}
    </section>
  );
}

function Legend() {
  return (
    <ul class="legend" aria-label="Legend">
      <li>
        <svg class="mark" width="22" height="12" viewBox="0 -6 22 12" aria-hidden="true">
          <path class="bar" d="M0 0H22" stroke-width="6" />
        </svg>
        token
      </li>
      {MARK_KINDS.map((kind) => (
        <li key={kind}>
          <Mark kind={kind} /> {MARK_WORDS[kind]}
        </li>
      ))}
    </ul>
  );
}
