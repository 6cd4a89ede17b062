import { useContext, useEffect } from 'preact/hooks';
import { LanesSection, periodWord, WINDOWS, windowOf } from '../../../page-engine/lanes-section.tsx';
import { hashOf, setParams, useAddress, useSelected } from './address.ts';
import { ConnectPanel } from './connect-panel.tsx';
import { ConnectionContext } from './connection.ts';
import { Figures } from './figures.tsx';
import type { Model } from './model.ts';
import { Search } from './parts.tsx';
import { Requests } from './requests.tsx';
import { ScenarioBar } from './scenario-bar.tsx';

/** The part of time that the address names. */
function useView() {
  const { params } = useAddress();
  return { params, search: params.search ?? '', ...windowOf(Number(params.window), Number(params.until)) };
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
  return (
    <div class="live">
      <ConnectPanel model={model} />
      <Figures model={model} windowMs={untilMs === undefined ? windowMs : 60_000} />
      <ScenarioBar model={model} />
      <Lanes model={model} view={view} />
      <div class="beside">
        <Requests requests={model.requests} url={model.url}>
          {untilMs !== undefined && (
            <p class="hint">
              {params.requests ? 'Those that the verdict names.' : `From ${periodWord(view)}.`}{' '}
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

function Lanes({ model, view }: { model: Model; view: Shown }) {
  const [selected, select] = useSelected();
  const { params, windowMs, untilMs, search } = view;
  const wanted = search.trim().toLowerCase();
  const lanes = model.lanes.filter(
    ({ id, name }) => id.toLowerCase().includes(wanted) || name.toLowerCase().includes(wanted),
  );
  const back = { until: undefined, requests: undefined, ...(!WINDOWS.includes(windowMs) && { window: undefined }) };
  return (
    <LanesSection
      title="Lanes"
      model={model}
      lanes={lanes}
      window={{ windowMs, untilMs }}
      mostMs={14_400_000}
      asTable={params.as === 'table'}
      onTable={(table) => setParams({ as: table ? 'table' : undefined })}
      onWindow={(to) => setParams(to ? { window: `${to.windowMs}`, until: to.untilMs?.toString() } : back)}
      selected={selected}
      onSelect={select}
      hrefOf={(owner) => hashOf(owner ? 'owners' : 'live', { owner })}
      beside={<Search label="Owner" text={search} />}
      empty="No owner matches the search."
    />
  );
}
