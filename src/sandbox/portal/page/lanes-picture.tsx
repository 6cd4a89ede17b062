import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { hashOf } from './address.ts';
import {
  barsOf,
  heightOf,
  type Layout,
  labelEvery,
  laneY,
  layoutOf,
  type Mark,
  markNear,
  markPaths,
  marksOf,
  nowX,
  rowAt,
  sameLayout,
  shiftX,
  ticksOf,
} from './lanes.ts';
import { type Lane, type Model, timeOf } from './model.ts';
import { useMoving } from './moving.ts';
import { Bands, TimeRail } from './time-rail.tsx';
import { outcomeWord, ownerWord, timeWord } from './words.ts';

interface Props {
  readonly model: Model;
  readonly lanes: readonly Lane[];
  readonly windowMs: number;
  readonly calls: boolean;
  /** The sandbox's time at which the picture was stopped. */
  readonly heldAtMs: number | undefined;
  readonly selected: number | undefined;
  readonly onSelect: (id: number) => void;
}

/** One lane per owner: tokens as bars, requests as marks, time to the right. The table shows the same. */
export function LanesPicture(props: Props) {
  const { model, lanes, windowMs, calls, heldAtMs, onSelect } = props;
  const [plot, width] = useWidth();
  const nowMs = heldAtMs ?? timeOf(model, performance.now());
  const layout = useStable(layoutOf(lanes.length, nowMs, { width, windowMs, calls }));
  const moving = useMoving(model, layout, heldAtMs);
  const [hovered, setHovered] = useState<{ mark: Mark; row: number } | undefined>();
  const height = heightOf(layout, lanes.length);
  const find = (event: MouseEvent) => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const y = event.clientY - box.top;
    const row = rowAt(layout, y);
    const lane = lanes[row];
    const x = event.clientX - box.left - shiftX(layout, heldAtMs ?? timeOf(model, performance.now()));
    const mark = lane && markNear(marksOf(lane, layout), x, y - laneY(layout, row));
    return mark && { mark, row };
  };
  return (
    <>
      <TimeRail model={model} layout={layout} heldAtMs={heldAtMs} />
      <div class="picture">
        <LaneNames lanes={lanes} layout={layout} />
        <div class="plot" ref={plot}>
          {/* biome-ignore lint/a11y/useKeyWithClickEvents: the list of requests offers the same by keyboard */}
          <svg
            class="lanes"
            role="img"
            aria-label={`One lane for each of ${lanes.length} owners. The same as a table: choose Table.`}
            width={width}
            height={height}
            onMouseMove={(event) => setHovered(find(event))}
            onMouseLeave={() => setHovered(undefined)}
            onClick={(event) => {
              const found = find(event);
              if (found) onSelect(found.mark.entry.id);
            }}
          >
            <g ref={moving}>
              <Bands model={model} layout={layout} top={0} height={height} />
              <path
                class="axis-line"
                d={ticksOf(layout)
                  .map(({ x }) => `M${x} 0v${height}`)
                  .join('')}
              />
              {lanes.map((lane, row) => (
                <LaneDrawing key={lane.id} lane={lane} y={laneY(layout, row)} layout={layout} />
              ))}
              <Selected lanes={lanes} layout={layout} selected={props.selected} />
            </g>
            <rect class="future" x={nowX(layout)} y="0" width={Math.max(0, width - nowX(layout))} height={height} />
            <path class="now" d={`M${nowX(layout)} 0v${height}`} />
          </svg>
          {hovered && <Tip found={hovered} layout={layout} shift={shiftX(layout, nowMs)} />}
        </div>
      </div>
    </>
  );
}

/** The width of a mark's line, as a share of its radius. */
const STROKE = 0.375;

/** Redrawn only when its owner's data or the layout changes. */
function LaneDrawing({ lane, y, layout }: { lane: Lane; y: number; layout: Layout }) {
  return useMemo(() => {
    const { bars, cuts } = barsOf(lane.tokens, layout);
    const marks = [...markPaths(marksOf(lane, layout), layout.radius)];
    return (
      <g transform={`translate(0 ${y})`} stroke-width={layout.radius * STROKE}>
        {bars && <path class="bar" d={bars} stroke-width={layout.barHeight} />}
        {cuts && <path class="cut" d={cuts} />}
        {marks.map(([kind, path]) => (
          <path key={kind} class={`mark ${kind}`} d={path} />
        ))}
      </g>
    );
  }, [lane, y, layout]);
}

/** The height of a name. */
const NAME_PX = 15;

function LaneNames({ lanes, layout }: { lanes: readonly Lane[]; layout: Layout }) {
  const ids = lanes.map(({ id }) => id).join();
  const { pitch, barY } = layout;
  return useMemo(() => {
    const every = labelEvery(pitch, NAME_PX);
    return (
      <div class="names" aria-hidden="true">
        {lanes.map(({ id, name }, row) =>
          row % every === 0 ? (
            <a
              key={id}
              class="lane-name"
              tabIndex={-1}
              href={hashOf(id ? 'owners' : 'live', { owner: id })}
              title={`${id} ${name}`}
              style={{ top: `${laneY(layout, row) + barY - NAME_PX / 2}px` }}
            >
              <span class="wide">{name || ownerWord(id)}</span>
              <span class="narrow">{ownerWord(id)}</span>
            </a>
          ) : null,
        )}
      </div>
    );
  }, [ids, pitch, barY]);
}

function Selected(props: { lanes: readonly Lane[]; layout: Layout; selected: number | undefined }) {
  const { lanes, layout, selected } = props;
  if (selected === undefined) return null;
  for (const [row, lane] of lanes.entries()) {
    if (!lane.requests.some(({ id }) => id === selected)) continue;
    const mark = marksOf(lane, layout).find(({ entry }) => entry.id === selected);
    return mark ? <circle class="selected" cx={mark.x} cy={laneY(layout, row) + mark.y} r={layout.radius + 4} /> : null;
  }
  return null;
}

function Tip({ found, layout, shift }: { found: { mark: Mark; row: number }; layout: Layout; shift: number }) {
  const { mark, row } = found;
  const x = mark.x + shift;
  const side = x > layout.width / 2 ? { right: `${layout.width - x}px` } : { left: `${x}px` };
  return (
    <p class="tip" style={{ top: `${laneY(layout, row) + mark.y + 12}px`, ...side }} aria-hidden="true">
      {ownerWord(mark.entry.owner ?? '')} · {outcomeWord(mark.entry)} · {timeWord(mark.entry.atMs)}
    </p>
  );
}

/** Returns the same object as long as its values do not change. */
function useStable(layout: Layout): Layout {
  const kept = useRef(layout);
  if (!sameLayout(kept.current, layout)) kept.current = layout;
  return kept.current;
}

function useWidth() {
  const element = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    const { current } = element;
    if (!current) return undefined;
    const observer = new ResizeObserver(() => setWidth(Math.max(120, Math.floor(current.clientWidth))));
    observer.observe(current);
    return () => observer.disconnect();
  }, []);
  return [element, width] as const;
}
