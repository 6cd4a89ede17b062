import { useState } from 'preact/hooks';
import { Canvas, useWidth } from './canvas.tsx';
import { kindOf, type Lane, MARK_KINDS } from './data.ts';
import { drawLanes, type Surface } from './draw.ts';
import { heightOf, type Layout, labelEvery, laneY, layoutOf, markNear, rowAt } from './layout.ts';
import { type RailProps, TimeRail } from './time-rail.tsx';
import { MARK_WORDS, marksWord, plural, spanWord, timeWord } from './words.ts';

export interface PictureProps extends Omit<RailProps, 'layout'> {
  readonly lanes: readonly Lane[];
  readonly windowMs: number;
  /** The time at the end of the window. */
  readonly nowMs: () => number;
  /** The request with a ring around it. */
  readonly selected: number | undefined;
  readonly onSelect: (id: number) => void;
  /** Where the name of a lane leads. */
  readonly hrefOf: (id: string) => string;
  /** What else a click on the name does. */
  readonly onName?: (id: string) => void;
}

type Found = NonNullable<ReturnType<typeof markNear>> & { readonly row: number };

/** A time rail above one lane per owner: tokens as bars, requests as marks, time to the right. The table shows the same. */
export function Picture(props: PictureProps) {
  const { lanes, bands, windowMs, still, selected, onSelect } = props;
  const [plot, width] = useWidth();
  const [hovered, setHovered] = useState<Found | undefined>();
  const layout = () => layoutOf(lanes.length, { width, windowMs, nowMs: props.nowMs() });
  const now = layout();
  const height = heightOf(now, lanes.length);
  const every = labelEvery(now.pitch, NAME_PX);
  const draw = (surface: Surface, canvas: HTMLCanvasElement) => {
    const { top } = canvas.getBoundingClientRect();
    const at = layout();
    const [from, to] = [Math.max(0, rowAt(at, -top)), rowAt(at, innerHeight - top) + 1];
    drawLanes(surface, { lanes, bands, layout: at, selected, from, to });
  };
  const find = (event: MouseEvent): Found | undefined => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const at = layout();
    const row = rowAt(at, event.clientY - box.top);
    const y = event.clientY - box.top - laneY(at, row);
    const found = markNear(lanes[row]?.marks ?? [], at, event.clientX - box.left, y);
    return found && { ...found, row };
  };
  return (
    <>
      <TimeRail {...props} layout={layout} />
      <div class="picture">
        <LaneNames {...props} layout={now} every={every} />
        {/* biome-ignore lint/a11y/noStaticElementInteractions: a list of requests offers the same by keyboard */}
        {/* biome-ignore lint/a11y/useKeyWithClickEvents: a list of requests offers the same by keyboard */}
        <div
          class="plot"
          ref={plot}
          onMouseMove={(event) => setHovered(find(event))}
          onMouseLeave={() => setHovered(undefined)}
          onClick={(event) => {
            const found = find(event);
            if (found) onSelect(found.mark[0]);
          }}
        >
          <Canvas class="lanes" label={labelOf(lanes, now)} width={width} height={height} still={still} draw={draw} />
          {hovered && <Tip found={hovered} lane={lanes[hovered.row]} layout={now} />}
        </div>
      </div>
      {every > 1 && lanes.length > 1 && <p class="hint">One lane in {every} is named. The table names all.</p>}
    </>
  );
}

/** What the lanes show, in a sentence. */
function labelOf(lanes: readonly Lane[], { nowMs, windowMs }: Layout): string {
  const counts = MARK_KINDS.map(() => 0);
  for (const { marks } of lanes) {
    for (const [, atMs, kind] of marks) {
      if (atMs >= nowMs - windowMs && atMs <= nowMs) counts[kind] = (counts[kind] ?? 0) + 1;
    }
  }
  const shown = marksWord(counts, 'no requests');
  return `${plural(lanes.length, 'lane')}, ${spanWord(windowMs)}: ${shown}. The same as a table: choose Table.`;
}

/** The height of a name. */
const NAME_PX = 15;

function LaneNames(props: { layout: Layout; every: number } & Pick<PictureProps, 'lanes' | 'hrefOf' | 'onName'>) {
  const { lanes, layout, every, hrefOf, onName } = props;
  return (
    <div class="names" aria-hidden="true">
      {lanes.map(({ id, name }, row) =>
        row % every === 0 ? (
          <a
            key={id}
            class="lane-name"
            tabIndex={-1}
            href={hrefOf(id)}
            onClick={() => onName?.(id)}
            title={`${id} ${name}`}
            style={{ top: `${laneY(layout, row) + layout.barY - NAME_PX / 2}px` }}
          >
            {id === '' || id === name ? (
              <CutName name={name} />
            ) : (
              <>
                <span class="wide">
                  <CutName name={name} />
                </span>
                <span class="narrow">
                  <CutName name={id} />
                </span>
              </>
            )}
          </a>
        ) : null,
      )}
    </div>
  );
}

/** How much of the end of a name always shows: names of one kind differ there. */
const NAME_END = 12;

/** A name that is cut in its middle where there is no room for it. */
function CutName({ name }: { name: string }) {
  return (
    <span class="cut-name">
      <span>{name.slice(0, -NAME_END)}</span>
      <span>{name.slice(-NAME_END)}</span>
    </span>
  );
}

function Tip({ found, lane, layout }: { found: Found; lane: Lane | undefined; layout: Layout }) {
  const { mark, x, y, row } = found;
  const side = x > layout.width / 2 ? { right: `${layout.width - x}px` } : { left: `${x}px` };
  return (
    <p class="tip" style={{ top: `${laneY(layout, row) + y + 12}px`, ...side }} aria-hidden="true">
      {lane?.id || lane?.name} · {MARK_WORDS[kindOf(mark)]}
      {mark[3] && kindOf(mark) !== 'wasted' ? ', wasted' : ''} · {timeWord(mark[1])}
    </p>
  );
}
