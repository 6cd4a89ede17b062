import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import {
  barsOf,
  type Layout,
  labelEvery,
  layoutOf,
  type Mark,
  markNear,
  markPaths,
  marksOf,
  nowX,
  sameLayout,
  shiftX,
  ticksOf,
} from './lanes.ts';
import { type Lane, type Model, timeOf } from './model.ts';
import { outcomeWord, ownerWord, timeWord } from './words.ts';

const AXIS_PX = 24;

/** How often the picture moves; it is drawn anew only where there is news. */
const MOVE_MS = 100;
const MOVE_LESS_MS = 1000;

interface Props {
  readonly model: Model;
  readonly lanes: readonly Lane[];
  readonly windowMs: number;
  readonly calls: boolean;
  /** The sandbox's time at which the picture is held. */
  readonly heldAtMs: number | undefined;
  readonly selected: number | undefined;
  readonly onSelect: (id: number) => void;
}

/** One lane per owner: tokens as bars, requests as marks, time to the right. What it shows is in the table too. */
export function LanesPicture(props: Props) {
  const { model, lanes, windowMs, calls, heldAtMs, onSelect } = props;
  const [plot, width] = useWidth();
  const nowMs = heldAtMs ?? timeOf(model, performance.now());
  const layout = useStable(layoutOf(lanes.length, nowMs, { width, windowMs, calls }));
  const moving = useMoving(model, layout, heldAtMs);
  const [hovered, setHovered] = useState<{ mark: Mark; row: number } | undefined>();
  const height = Math.ceil(lanes.length * layout.pitch);
  const find = (event: MouseEvent) => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / layout.pitch);
    const lane = lanes[row];
    const x = event.clientX - box.left - shiftX(layout, heldAtMs ?? timeOf(model, performance.now()));
    const mark = lane && markNear(marksOf(lane, layout), x, event.clientY - box.top - row * layout.pitch);
    return mark && { mark, row };
  };
  return (
    <div class="picture">
      <LaneNames lanes={lanes} pitch={layout.pitch} />
      <div class="plot" ref={plot}>
        {/* biome-ignore lint/a11y/useKeyWithClickEvents: the list of requests beside it selects by keyboard */}
        <svg
          class="lanes"
          role="img"
          aria-label={`One lane for each of ${lanes.length} owners. The same as a table: choose Table.`}
          width={width}
          height={height + AXIS_PX}
          onMouseMove={(event) => setHovered(find(event))}
          onMouseLeave={() => setHovered(undefined)}
          onClick={(event) => {
            const found = find(event);
            if (found) onSelect(found.mark.entry.id);
          }}
        >
          <g ref={moving}>
            <Axis layout={layout} height={height} />
            {lanes.map((lane, row) => (
              <LaneDrawing key={lane.id} lane={lane} y={row * layout.pitch} layout={layout} />
            ))}
            <Selected lanes={lanes} layout={layout} selected={props.selected} />
          </g>
          <rect class="future" x={nowX(layout)} y="0" width={Math.max(0, width - nowX(layout))} height={height} />
          <path class="now" d={`M${nowX(layout)} 0v${height + 6}`} />
        </svg>
        {hovered && <Tip found={hovered} layout={layout} shift={shiftX(layout, nowMs)} />}
      </div>
    </div>
  );
}

/** Drawn anew only when its owner has news or the layout changes. */
function LaneDrawing({ lane, y, layout }: { lane: Lane; y: number; layout: Layout }) {
  return useMemo(() => {
    const { bars, cuts } = barsOf(lane.tokens, layout);
    const marks = [...markPaths(marksOf(lane, layout), layout.radius)];
    return (
      <g transform={`translate(0 ${y})`}>
        {bars && <path class="bar" d={bars} stroke-width={layout.barHeight} />}
        {cuts && <path class="cut" d={cuts} />}
        {marks.map(([kind, path]) => (
          <path key={kind} class={`mark ${kind}`} d={path} />
        ))}
      </g>
    );
  }, [lane, y, layout]);
}

function Axis({ layout, height }: { layout: Layout; height: number }) {
  return useMemo(
    () => (
      <g class="axis">
        {ticksOf(layout).map(({ x, atMs }) => (
          <g key={atMs}>
            <path class="axis-line" d={`M${x} 0v${height + 4}`} />
            <text x={x} y={height + 18}>
              {timeWord(atMs)}
            </text>
          </g>
        ))}
      </g>
    ),
    [layout, height],
  );
}

function LaneNames({ lanes, pitch }: { lanes: readonly Lane[]; pitch: number }) {
  const ids = lanes.map(({ id }) => id).join();
  return useMemo(() => {
    const every = labelEvery(pitch);
    const height = Math.max(pitch, 15);
    return (
      <div class="names" aria-hidden="true">
        {lanes.map(({ id }, row) =>
          row % every === 0 ? (
            <span key={id} class="lane-name" title={id} style={{ top: `${(row + 0.5) * pitch - height / 2}px` }}>
              {ownerWord(id)}
            </span>
          ) : null,
        )}
      </div>
    );
  }, [ids, pitch]);
}

function Selected(props: { lanes: readonly Lane[]; layout: Layout; selected: number | undefined }) {
  const { lanes, layout, selected } = props;
  if (selected === undefined) return null;
  for (const [row, lane] of lanes.entries()) {
    if (!lane.requests.some(({ id }) => id === selected)) continue;
    const mark = marksOf(lane, layout).find(({ entry }) => entry.id === selected);
    return mark ? <circle class="selected" cx={mark.x} cy={row * layout.pitch + mark.y} r={layout.radius + 4} /> : null;
  }
  return null;
}

function Tip({ found, layout, shift }: { found: { mark: Mark; row: number }; layout: Layout; shift: number }) {
  const { mark, row } = found;
  const x = mark.x + shift;
  const side = x > layout.width / 2 ? { right: `${layout.width - x}px` } : { left: `${x}px` };
  return (
    <p class="tip" style={{ top: `${row * layout.pitch + mark.y + 12}px`, ...side }} aria-hidden="true">
      {ownerWord(mark.entry.owner ?? '')} · {outcomeWord(mark.entry)} · {timeWord(mark.entry.atMs)}
    </p>
  );
}

/** Moves the drawing with the sandbox's time, without drawing anything anew. */
function useMoving(model: Model, layout: Layout, heldAtMs: number | undefined) {
  const group = useRef<SVGGElement>(null);
  useEffect(() => {
    const move = () => {
      const nowMs = heldAtMs ?? timeOf(model, performance.now());
      group.current?.setAttribute('transform', `translate(${shiftX(layout, nowMs).toFixed(1)} 0)`);
    };
    move();
    if (heldAtMs !== undefined || model.clock.frozen) return undefined;
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const timer = setInterval(move, still ? MOVE_LESS_MS : MOVE_MS);
    return () => clearInterval(timer);
  }, [model.clock, layout, heldAtMs]);
  return group;
}

/** The same object as long as it says the same. */
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
