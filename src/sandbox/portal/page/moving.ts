import { useEffect, useRef } from 'preact/hooks';
import { type Layout, shiftX } from './lanes.ts';
import { type Model, standsStill, timeOf } from './model.ts';

/** How often a drawing moves. It is redrawn only when its data changes. */
const MOVE_MS = 100;
const MOVE_LESS_MS = 1000;

/** Moves a drawing with the sandbox's time without redrawing it. */
export function useMoving(model: Model, layout: Layout, heldAtMs: number | undefined) {
  const group = useRef<SVGGElement>(null);
  useEffect(() => {
    const move = () => {
      const nowMs = heldAtMs ?? timeOf(model, performance.now());
      group.current?.setAttribute('transform', `translate(${shiftX(layout, nowMs).toFixed(1)} 0)`);
    };
    move();
    if (heldAtMs !== undefined || standsStill(model)) return undefined;
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const timer = setInterval(move, still ? MOVE_LESS_MS : MOVE_MS);
    return () => clearInterval(timer);
  }, [model.clock, layout, heldAtMs]);
  return group;
}
