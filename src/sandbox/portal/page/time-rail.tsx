import { useMemo, useState } from 'preact/hooks';
import { MARK_KINDS } from '../../state/marks.ts';
import { bandSpan, columnsOf, type Layout, nowX, ticksOf } from './lanes.ts';
import { countsBetween, type Model, timeOf } from './model.ts';
import { useMoving } from './moving.ts';
import { countWord, faultKindWord, MARK_WORDS, spanWord, timeWord } from './words.ts';

/** From top to bottom: times, scenarios, columns. */
const AXIS_PX = 18;
const STRIP_PX = 15;
const PLOT_PX = 44;
const RAIL_PX = AXIS_PX + STRIP_PX + PLOT_PX;

interface Props {
  readonly model: Model;
  readonly layout: Layout;
  readonly heldAtMs: number | undefined;
}

/** The time axis with token requests per second, faults, scenarios and clock changes; stays above the lanes. */
export function TimeRail({ model, layout, heldAtMs }: Props) {
  const moving = useMoving(model, layout, heldAtMs);
  const [agoMs, setAgoMs] = useState<number | undefined>();
  const nowMs = heldAtMs ?? timeOf(model, performance.now());
  const columns = useMemo(() => columnsOf(model.seconds.values(), layout), [model.seconds, layout]);
  const peak = Math.max(1, ...columns.map(({ counts }) => sum(counts)));
  const at = (event: MouseEvent) => {
    const x = event.clientX - (event.currentTarget as HTMLElement).getBoundingClientRect().left;
    return Math.max(0, (nowX(layout) - x) / layout.pxPerMs);
  };
  const word = agoMs === undefined ? undefined : momentWord(model, nowMs - agoMs, layout);
  const move = (event: KeyboardEvent) => {
    const step = layout.windowMs / 60;
    const next = { ArrowLeft: (agoMs ?? 0) + step, ArrowRight: (agoMs ?? 0) - step, Home: layout.windowMs, End: 0 }[
      event.key as 'Home'
    ];
    if (next === undefined) return;
    event.preventDefault();
    setAgoMs(Math.min(layout.windowMs, Math.max(0, next)));
  };
  return (
    <div class="rail">
      <p class="rail-scale" aria-hidden="true">
        {columns[0] && `${countWord(peak)} in ${spanWord(columns[0].toMs - columns[0].fromMs)}`}
      </p>
      <div
        class="plot"
        role="slider"
        tabIndex={0}
        aria-label="Token requests over time"
        aria-valuemin={-layout.windowMs / 1000}
        aria-valuemax={0}
        aria-valuenow={-(agoMs ?? 0) / 1000}
        aria-valuetext={word ?? 'now'}
        onMouseMove={(event) => setAgoMs(at(event))}
        onMouseLeave={() => setAgoMs(undefined)}
        onKeyDown={move}
        onFocus={() => setAgoMs((before) => before ?? 0)}
        onBlur={() => setAgoMs(undefined)}
      >
        <svg width={layout.width} height={RAIL_PX} aria-hidden="true">
          <g ref={moving}>
            <Bands model={model} layout={layout} top={AXIS_PX} height={RAIL_PX - AXIS_PX} />
            <g class="axis">
              {ticksOf(layout).map(({ x, atMs }) => (
                <g key={atMs}>
                  <path class="axis-line" d={`M${x} ${AXIS_PX - 4}V${RAIL_PX}`} />
                  <text x={x} y="11">
                    {timeWord(atMs)}
                  </text>
                </g>
              ))}
            </g>
            {columns.map((column) => (
              <Column key={column.fromMs} {...column} peak={peak} />
            ))}
            <BandNames model={model} layout={layout} />
          </g>
          <path class="now" d={`M${nowX(layout)} ${AXIS_PX}V${RAIL_PX}`} />
          {agoMs !== undefined && (
            <path class="cursor" d={`M${(nowX(layout) - agoMs * layout.pxPerMs).toFixed(1)} ${AXIS_PX}V${RAIL_PX}`} />
          )}
        </svg>
        {word && (
          <p class="readout" aria-hidden="true">
            {word}
          </p>
        )}
      </div>
    </div>
  );
}

function Column(props: { x: number; width: number; counts: number[]; peak: number }) {
  const { x, width, counts, peak } = props;
  let y = RAIL_PX;
  return (
    <g>
      {counts.map((count, index) => {
        const height = (count / peak) * PLOT_PX;
        y -= height;
        const kind = MARK_KINDS[index];
        return count > 0 && <rect key={kind} class={`column ${kind}`} x={x} y={y} width={width} height={height} />;
      })}
    </g>
  );
}

interface BandsProps {
  readonly model: Model;
  readonly layout: Layout;
}

/** Faults, scenarios, frozen time and clock jumps, as bands behind rail and lanes. */
export function Bands({ model, layout, top, height }: BandsProps & { top: number; height: number }) {
  return (
    <g>
      {model.bands.map((band) => {
        const span = bandSpan(band, layout);
        return span && <rect key={band.id} class={`band ${band.kind}`} {...span} y={top} height={height} />;
      })}
    </g>
  );
}

/** The width of a letter, for names that fit their band. */
const LETTER_PX = 6.2;

/** The names of the bands: scenarios on strips of their own, all others above the columns. */
function BandNames({ model, layout }: BandsProps) {
  return (
    <g>
      {model.bands.map((band) => {
        const span = bandSpan(band, layout);
        if (!span) return null;
        const isScenario = band.kind === 'scenario';
        const word = bandWord(band);
        return (
          <g key={band.id} class={isScenario ? 'strip' : undefined}>
            {isScenario && <rect {...span} y={AXIS_PX} height={STRIP_PX} />}
            {span.width > word.length * LETTER_PX + 8 && (
              <text x={span.x + 5} y={AXIS_PX + (isScenario ? 11 : STRIP_PX + 11)}>
                {word}
              </text>
            )}
          </g>
        );
      })}
    </g>
  );
}

function bandWord({ kind, name = '' }: Model['bands'][number]): string {
  const words = {
    fault: faultKindWord(name),
    scenario: sentence(name.replaceAll('-', ' ')),
    frozen: 'Time frozen',
    jump: 'Clock jump',
  };
  return words[kind];
}

/** What a moment of the rail shows, in words. */
function momentWord(model: Model, atMs: number, layout: Layout): string {
  const spanMs = Math.max(1000, layout.windowMs / 120);
  const counts = countsBetween(model.seconds, atMs - spanMs / 2, atMs + spanMs / 2);
  const requests = counts.flatMap((count, index) =>
    count > 0 ? `${count} × ${MARK_WORDS[MARK_KINDS[index] ?? 'ok']}` : [],
  );
  const bands = model.bands.filter(({ fromMs, toMs = Infinity }) => fromMs <= atMs && atMs <= toMs).map(bandWord);
  return [timeWord(atMs), requests.join(', ') || 'no token requests', ...new Set(bands)].join(' · ');
}

const sentence = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);
