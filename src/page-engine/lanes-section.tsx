import type { ComponentChildren } from 'preact';
import type { Lane, PictureData } from './data.ts';
import { LanesTable } from './lanes-table.tsx';
import { type Clocked, standsStill, timeOf } from './page-clock.ts';
import { Choice, Legend, ShownAs } from './parts.tsx';
import { Picture } from './picture.tsx';
import { countWord, spanWord, timeWord } from './words.ts';

/** The part of time that is shown. Without `untilMs` it ends now. */
export interface Window {
  readonly windowMs: number;
  readonly untilMs?: number | undefined;
}

export const WINDOWS: readonly number[] = [60_000, 300_000, 900_000, 3_600_000, 14_400_000];

/** The most marks of a lane. */
export const MAX_LANE_MARKS = 300;

/** The window that an address names. */
export const windowOf = (windowMs: number, untilMs: number, mostMs = 14_400_000): Window => ({
  windowMs: Math.min(mostMs, Math.max(1000, windowMs || 60_000)),
  untilMs: untilMs > 0 ? untilMs : undefined,
});

export const periodWord = ({ windowMs, untilMs = 0 }: Window): string =>
  `${timeWord(untilMs - windowMs)} to ${timeWord(untilMs)}`;

/** Lanes and time rail, now or held at a time of the past, with the controls for both. */
export function LanesSection(props: {
  title: string;
  model: Clocked & Omit<PictureData, 'lanes'>;
  lanes: readonly Lane[];
  window: Window;
  /** The longest window to choose. */
  mostMs: number;
  asTable: boolean;
  onTable: (table: boolean) => void;
  /** Without a window: back to the present. */
  onWindow: (window: Window | undefined) => void;
  selected: number | undefined;
  onSelect: (id: number) => void;
  hrefOf: (owner: string) => string;
  /** Beside the heading. */
  beside?: ComponentChildren;
  empty: string;
  children?: ComponentChildren;
}) {
  const { title, model, lanes, window, mostMs, asTable, onTable, onWindow, beside, empty, children } = props;
  const { windowMs, untilMs } = window;
  const nowMs = () => untilMs ?? timeOf(model, performance.now());
  const shown = lanes.filter(({ id }) => id !== '').length;
  const back = () => onWindow(undefined);
  const hold = () => onWindow({ windowMs, untilMs: Math.round(nowMs()) });
  const spans = WINDOWS.filter((ms) => ms <= mostMs);
  const options = (spans.includes(windowMs) ? spans : [windowMs, ...spans]).map(
    (ms) => [`${ms}`, spanWord(ms)] as const,
  );
  return (
    <section class="lanes-section" aria-labelledby="lanes-heading">
      <div class="row heading">
        <h2 id="lanes-heading">{title}</h2>
        <ShownAs table={asTable} onChange={onTable} />
        <button type="button" aria-pressed={untilMs !== undefined} onClick={untilMs === undefined ? hold : back}>
          Hold
        </button>
        <Choice
          label="Last"
          value={`${windowMs}`}
          options={options}
          onChange={(ms) => onWindow({ windowMs: Number(ms), untilMs })}
        />
        {beside}
      </div>
      {untilMs !== undefined && (
        <p class="row past">
          <span>
            Held: {periodWord(window)}, {spanWord(windowMs)}.
          </span>
          <button type="button" onClick={back}>
            Back to now
          </button>
        </p>
      )}
      {!asTable && <Legend />}
      {model.matching > shown && shown > 0 && (
        <p class="hint worst">
          The {countWord(shown)} worst of {countWord(model.matching)} owners: failures first, then waste. Search for
          others.
        </p>
      )}
      {asTable ? (
        <LanesTable lanes={lanes} nowMs={nowMs()} windowMs={windowMs} mostMarks={MAX_LANE_MARKS} />
      ) : (
        <Picture
          lanes={lanes}
          seconds={model.seconds}
          bands={model.bands}
          windowMs={windowMs}
          nowMs={nowMs}
          selected={props.selected}
          onSelect={props.onSelect}
          still={untilMs !== undefined || standsStill(model)}
          onZoom={(span) =>
            onWindow(span && { windowMs: Math.round(span.toMs - span.fromMs), untilMs: Math.round(span.toMs) })
          }
          hrefOf={props.hrefOf}
        />
      )}
      {lanes.length === 0 && <p class="empty">{empty}</p>}
      {children}
    </section>
  );
}
