import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { type Surface, surfaceOf, TONES } from './draw.ts';

/** How often a moving picture is drawn. */
const DRAW_MS = 250;
const DRAW_LESS_MS = 1000;

/** A drawing takes at most this share of the processor: where others need it, pictures are left out. */
const SHARE = 0.2;

/**
 * A canvas that is drawn when it is scrolled, when it is rendered, and as time passes unless it is `still`; never more
 * often than its share of the processor allows.
 */
export function Canvas(props: {
  class: string;
  /** The accessible name. Absent: it is hidden from screen readers. */
  label?: string;
  width: number;
  height: number;
  still: boolean;
  draw: (surface: Surface, canvas: HTMLCanvasElement) => void;
}) {
  const { label, width, height, still } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const tones = useRef<HTMLSpanElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const pace = useRef<FramePacer>(undefined);
  pace.current ??= new FramePacer(() => {
    const { draw, width: across, height: down } = latest.current;
    if (canvas.current && tones.current) draw(surfaceOf(canvas.current, tones.current, across, down), canvas.current);
  });
  // Each rendering may have changed what is drawn.
  useLayoutEffect(() => pace.current?.wish());
  useEffect(() => {
    const wish = () => pace.current?.wish();
    const everyMs = matchMedia('(prefers-reduced-motion: reduce)').matches ? DRAW_LESS_MS : DRAW_MS;
    const timer = still ? undefined : setInterval(wish, everyMs);
    addEventListener('scroll', wish, { passive: true });
    return () => {
      clearInterval(timer);
      removeEventListener('scroll', wish);
    };
  }, [still]);
  useEffect(() => () => pace.current?.stop(), []);
  return (
    <>
      <span class="tones" ref={tones}>
        {TONES.map((tone) => (
          <span key={tone} style={{ color: `var(--${tone})` }} />
        ))}
      </span>
      <canvas
        ref={canvas}
        class={props.class}
        style={{ width: `${width}px`, height: `${height}px` }}
        {...(label === undefined ? { 'aria-hidden': true } : { role: 'img', 'aria-label': label })}
      />
    </>
  );
}

/** Carries out a wish at the next frame, and then none until it has earned the time that it took. */
class FramePacer {
  readonly #draw: () => void;
  #frame: number | undefined;
  #rest: ReturnType<typeof setTimeout> | undefined;
  #wished = false;

  constructor(draw: () => void) {
    this.#draw = draw;
  }

  wish(): void {
    this.#wished = true;
    if (this.#frame === undefined && this.#rest === undefined)
      this.#frame = requestAnimationFrame(() => this.#carryOut());
  }

  stop(): void {
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
    clearTimeout(this.#rest);
  }

  #carryOut(): void {
    const startMs = performance.now();
    this.#frame = undefined;
    this.#wished = false;
    this.#draw();
    this.#rest = setTimeout(
      () => {
        this.#rest = undefined;
        if (this.#wished) this.wish();
      },
      (performance.now() - startMs) / SHARE,
    );
  }
}

/** The width of an element as it is laid out. */
export function useWidth() {
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
