import { useContext, useEffect } from 'preact/hooks';
import { LanesTable } from '../../../picture/lanes-table.tsx';
import { Legend, ShownAs } from '../../../picture/parts.tsx';
import { Picture } from '../../../picture/picture.tsx';
import { countWord, spanWord, timeWord } from '../../../picture/words.ts';
import { hashOf, setParams, useAddress, useSelected } from './address.ts';
import { ConnectPanel } from './connect-panel.tsx';
import { ConnectionContext } from './connection.ts';
import { Figures } from './figures.tsx';
import { MAX_LANE_MARKS, type Model, standsStill, timeOf } from './model.ts';
import { Choice, Search } from './parts.tsx';
import { Requests } from './requests.tsx';
import { ScenarioBar } from './scenario-bar.tsx';

const WINDOWS: readonly (readonly [value: string, word: string])[] = [
  ['60000', '1 min'],
  ['300000', '5 min'],
  ['900000', '15 min'],
  ['3600000', '1 h'],
  ['14400000', '4 h'],
];

const isWindow = (text: string): boolean => WINDOWS.some(([value]) => value === text);

/** The part of time that the address names. */
function useView() {
  const { params } = useAddress();
  const windowMs = Math.min(14_400_000, Math.max(1000, Number(params.window) || 60_000));
  const untilMs = Number(params.until) || undefined;
  const back = () =>
    setParams({ until: undefined, requests: undefined, ...(!isWindow(`${windowMs}`) && { window: undefined }) });
  return { params, windowMs, untilMs, search: params.search ?? '', back };
}

type Shown = ReturnType<typeof useView>;

/** Shows what the integration does, as it happens, or what it did in a window of the past. */
export function Live({ model }: { model: Model }) {
  const connection = useContext(ConnectionContext);
  const view = useView();
  const { params, windowMs, untilMs, search } = view;
  useEffect(
    () =>
      connection?.look({ windowMs, untilMs, search, requests: untilMs === undefined ? undefined : params.requests }),
    [windowMs, untilMs, search, params.requests],
  );
  const requests = (untilMs === undefined ? undefined : model.past)?.requests ?? model.requests;
  return (
    <div class="live">
      <ConnectPanel model={model} />
      <Figures model={model} windowMs={untilMs === undefined ? windowMs : 60_000} />
      <ScenarioBar model={model} />
      <Lanes model={model} view={view} />
      <div class="beside">
        <Requests requests={requests} url={model.url}>
          {untilMs !== undefined && (
            <p class="hint">
              {params.requests ? 'Those that the verdict names.' : `From ${periodWord(windowMs, untilMs)}.`}{' '}
              {params.requests && (
                <button type="button" class="quiet" onClick={() => setParams({ requests: undefined })}>
                  All of this window
                </button>
              )}
            </p>
          )}
        </Requests>
      </div>
    </div>
  );
}

const periodWord = (windowMs: number, untilMs: number): string =>
  `${timeWord(untilMs - windowMs)} to ${timeWord(untilMs)}`;

function Lanes({ model, view }: { model: Model; view: Shown }) {
  const [selected, select] = useSelected();
  const { params, windowMs, untilMs, search, back } = view;
  const asTable = params.as === 'table';
  const picture = (untilMs === undefined ? undefined : model.past) ?? model;
  const wanted = search.trim().toLowerCase();
  const lanes = [...picture.lanes.values()].filter(
    ({ id, name }) => id.toLowerCase().includes(wanted) || name.toLowerCase().includes(wanted),
  );
  const shown = lanes.filter(({ id }) => id !== '').length;
  const nowMs = () => untilMs ?? timeOf(model, performance.now());
  return (
    <section class="lanes-section" aria-labelledby="lanes-heading">
      <Controls model={model} view={view} asTable={asTable} />
      {!asTable && <Legend />}
      {picture.matching > shown && shown > 0 && (
        <p class="hint worst">
          The {countWord(shown)} worst of {countWord(picture.matching)} owners: failures first, then waste. Search for
          others.
        </p>
      )}
      {asTable ? (
        <LanesTable lanes={lanes} nowMs={nowMs()} windowMs={windowMs} mostMarks={MAX_LANE_MARKS} />
      ) : (
        <Picture
          lanes={lanes}
          seconds={picture.seconds}
          bands={picture.bands}
          windowMs={windowMs}
          nowMs={nowMs}
          selected={selected}
          onSelect={select}
          still={untilMs !== undefined || standsStill(model)}
          onZoom={(span) =>
            span
              ? setParams({ window: `${Math.round(span.toMs - span.fromMs)}`, until: `${Math.round(span.toMs)}` })
              : back()
          }
          hrefOf={(owner) => hashOf(owner ? 'owners' : 'live', { owner })}
        />
      )}
      {lanes.length === 0 && <p class="empty">No owner matches the search.</p>}
    </section>
  );
}

function Controls({ model, view, asTable }: { model: Model; view: Shown; asTable: boolean }) {
  const { windowMs, untilMs, search, back } = view;
  const window = `${windowMs}`;
  const hold = () => setParams({ until: `${Math.round(timeOf(model, performance.now()))}` });
  return (
    <>
      <div class="row heading">
        <h2 id="lanes-heading">Lanes</h2>
        <ShownAs table={asTable} onChange={(table) => setParams({ as: table ? 'table' : undefined })} />
        <button type="button" aria-pressed={untilMs !== undefined} onClick={untilMs === undefined ? hold : back}>
          Hold
        </button>
        <Choice
          label="Last"
          value={window}
          options={isWindow(window) ? WINDOWS : [[window, spanWord(windowMs)], ...WINDOWS]}
          onChange={(value) => setParams({ window: value })}
        />
        <Search label="Owner" text={search} />
      </div>
      {untilMs !== undefined && (
        <p class="row past">
          <span>
            Held: {periodWord(windowMs, untilMs)}, {spanWord(windowMs)}.
          </span>
          <button type="button" onClick={back}>
            Back to now
          </button>
        </p>
      )}
    </>
  );
}
