import { useMemo, useState } from 'preact/hooks';
import { kindOf } from '../../picture/data.ts';
import { LanesTable } from '../../picture/lanes-table.tsx';
import { Legend, ShownAs, Switch } from '../../picture/parts.tsx';
import { Picture } from '../../picture/picture.tsx';
import { countWord, MARK_WORDS, spanWord, timeWord } from '../../picture/words.ts';
import type { RegistryView } from '../frames.ts';
import type { Address, Changes } from './address.ts';
import { MAX_LANE_MARKS, type Model } from './model.ts';
import { hashWith } from './use-address.ts';

const WINDOWS = [60_000, 300_000, 900_000].map((ms) => [ms, spanWord(ms)] as const);

/** The last minutes, or a part of them that was chosen on the rail. */
function windowOf({ window, until }: Address): { windowMs: number; untilMs: number | undefined } {
  const [seconds, untilMs] = [Number(window), Number(until)];
  return { windowMs: seconds > 0 ? seconds * 1000 : 60_000, untilMs: untilMs > 0 ? untilMs : undefined };
}

export function Lanes(props: {
  model: Model;
  registry: RegistryView;
  wanted: string;
  /** Changes whenever the model has changed. */
  version: number;
  still: boolean;
  address: Address;
  onAddress: (changes: Changes) => void;
}) {
  const { model, registry, wanted, version, still, address, onAddress } = props;
  const [asTable, setAsTable] = useState(false);
  const [selected, select] = useState<number>();
  const { windowMs, untilMs } = windowOf(address);
  const setWindow = (ms: number, toMs?: number) =>
    onAddress({ window: `${ms / 1000}`, until: toMs === undefined ? undefined : `${Math.round(toMs)}` });
  const picture = useMemo(() => model.picture(registry, wanted), [registry, wanted, version]);
  const { lanes, bands, matching } = picture;
  const nowMs = () => untilMs ?? model.nowMs(performance.now());
  return (
    <section class="lanes-section" aria-labelledby="lanes-heading">
      <div class="row heading">
        <h2 id="lanes-heading">Token requests</h2>
        {untilMs !== undefined && (
          <button type="button" onClick={() => setWindow(60_000)}>
            Back to now
          </button>
        )}
        <Switch
          legend="Show the last"
          value={untilMs === undefined ? windowMs : undefined}
          options={WINDOWS}
          onChange={(ms) => setWindow(ms)}
        />
        <ShownAs table={asTable} onChange={setAsTable} />
      </div>
      {!asTable && <Legend />}
      {matching > lanes.length && (
        <p class="hint worst">
          The {countWord(lanes.length)} of {countWord(matching)} owners with the most failures.
        </p>
      )}
      {asTable ? (
        <LanesTable lanes={lanes} nowMs={nowMs()} windowMs={windowMs} mostMarks={MAX_LANE_MARKS} />
      ) : (
        <Picture
          lanes={lanes}
          bands={bands}
          windowMs={windowMs}
          nowMs={nowMs}
          selected={selected}
          seconds={model.seconds(registry.name)}
          still={still || untilMs !== undefined}
          onSelect={select}
          onZoom={(span) => (span ? setWindow(span.toMs - span.fromMs, span.toMs) : setWindow(60_000))}
          hrefOf={(owner) => hashWith({ owner })}
        />
      )}
      {model.page && <p class="hint">Recorded since {timeWord(model.page.recordedSinceMs)}, when a page was opened.</p>}
      {lanes.length === 0 && <p class="empty">No token requests since then.</p>}
      {selected !== undefined && <Selected model={model} selected={selected} lanes={lanes} />}
    </section>
  );
}

/** The request whose mark was clicked. The table of owners says the same by keyboard. */
function Selected(
  props: Pick<ReturnType<Model['picture']>, 'lanes'> & {
    model: Model;
    selected: number;
  },
) {
  const request = props.model.requests.get(props.selected);
  const lane = props.lanes.find(({ id }) => id === request?.owner);
  const mark = lane?.marks.find(([id]) => id === props.selected);
  if (!request || !mark) return null;
  const { owner, reason, atMs, tookMs, code, status } = request;
  const outcome = [MARK_WORDS[kindOf(mark)], code, status, tookMs !== undefined && `after ${spanWord(tookMs)}`];
  return (
    <p class="selected">
      <a href={hashWith({ owner })}>
        <bdi>{lane?.name}</bdi>
      </a>{' '}
      at {timeWord(atMs)}: requested because its token was {reason}; {outcome.filter(Boolean).join(', ')}
    </p>
  );
}
