import { useMemo, useState } from 'preact/hooks';
import { ConnectPanel } from './connect-panel.tsx';
import { Figures } from './figures.tsx';
import { LanesPicture } from './lanes-picture.tsx';
import { LanesTable } from './lanes-table.tsx';
import { type Lane, type Model, timeOf } from './model.ts';
import { Check, Choice, Mark } from './parts.tsx';
import { RequestDetail, RequestList } from './requests.tsx';
import { ScenarioBar } from './scenario-bar.tsx';
import { MARK_KINDS, MARK_WORDS, plural } from './words.ts';

const WINDOWS = [
  ['60000', '1 min'],
  ['300000', '5 min'],
  ['900000', '15 min'],
  ['3600000', '1 h'],
  ['14400000', '4 h'],
] as const;

/** More lanes than this are no picture any more: what is typed narrows them down. */
const MAX_LANES = 250;

/** What the integration does, as it does it. */
export function Live({ model: latest }: { model: Model }) {
  const [held, setHeld] = useState<{ model: Model; atMs: number } | undefined>();
  const [selected, setSelected] = useState<number | undefined>();
  const model = held?.model ?? latest;
  const entry = useMemo(
    () => (selected === undefined ? undefined : model.requests.find(({ id }) => id === selected)),
    [model.requests, selected],
  );
  const hold = () => setHeld(held ? undefined : { model: latest, atMs: timeOf(latest, performance.now()) });
  return (
    <div class="live">
      <ConnectPanel model={latest} />
      <Figures model={latest} />
      <ScenarioBar model={latest} />
      <Lanes model={model} heldAtMs={held?.atMs} onHold={hold} selected={entry?.id} onSelect={setSelected} />
      <div class="beside">
        {entry && <RequestDetail key={entry.id} entry={entry} url={model.url} onClose={() => setSelected(undefined)} />}
        <RequestList requests={model.requests} selected={entry?.id} onSelect={setSelected} />
      </div>
    </div>
  );
}

function Lanes(props: {
  model: Model;
  heldAtMs: number | undefined;
  onHold: () => void;
  selected: number | undefined;
  onSelect: (id: number) => void;
}) {
  const { model, heldAtMs, selected, onSelect } = props;
  const [window, setWindow] = useState<(typeof WINDOWS)[number][0]>('60000');
  const [calls, setCalls] = useState(false);
  const [asTable, setAsTable] = useState(false);
  const [search, setSearch] = useState('');
  const windowMs = Number(window);
  const matching = useMemo(() => lanesFor(model, search), [model.lanes, model.owners, search]);
  const lanes = matching.slice(0, MAX_LANES);
  return (
    <section class="lanes-section" aria-labelledby="lanes-heading">
      <div class="row heading">
        <h2 id="lanes-heading">Lanes</h2>
        <fieldset class="switch">
          <legend class="hidden">Show as</legend>
          {[false, true].map((table) => (
            <button key={`${table}`} type="button" aria-pressed={asTable === table} onClick={() => setAsTable(table)}>
              {table ? 'Table' : 'Picture'}
            </button>
          ))}
        </fieldset>
        <button type="button" aria-pressed={heldAtMs !== undefined} onClick={props.onHold}>
          Hold
        </button>
        <Choice label="Last" value={window} options={WINDOWS} onChange={setWindow} />
        <label class="inline">
          <span>Owner</span>
          <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        </label>
        <Check label="Calls of /echo" checked={calls} onChange={setCalls} />
      </div>
      {!asTable && <Legend />}
      {asTable ? (
        <LanesTable lanes={lanes} nowMs={heldAtMs ?? timeOf(model, performance.now())} windowMs={windowMs} />
      ) : (
        <LanesPicture
          model={model}
          lanes={lanes}
          windowMs={windowMs}
          calls={calls}
          heldAtMs={heldAtMs}
          selected={selected}
          onSelect={onSelect}
        />
      )}
      {lanes.length === 0 && <p class="hint empty">No such owner.</p>}
      {matching.length > lanes.length && (
        <p class="hint">
          The first {lanes.length} of {plural(matching.length, 'owner')}. Search to see others.
        </p>
      )}
    </section>
  );
}

function lanesFor({ lanes, owners }: Model, search: string): Lane[] {
  const wanted = search.trim().toLowerCase();
  const all = [...lanes.values()];
  if (wanted === '') return all;
  const names = new Map(owners.map(({ id, name }) => [id, name.toLowerCase()]));
  return all.filter(({ id }) => id.toLowerCase().includes(wanted) || names.get(id)?.includes(wanted));
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
