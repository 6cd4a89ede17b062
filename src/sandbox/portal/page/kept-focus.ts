import { useEffect, useRef } from 'preact/hooks';

/**
 * Moves the focus when the focused element is removed, such as a deleted row: to the heading of the detail that it was in,
 * else to the screen.
 */
export function useKeptFocus(): void {
  const places = useRef<(Element | null)[]>([]);
  useEffect(() => {
    const note = ({ target }: FocusEvent) => {
      if (!(target instanceof Element)) return;
      const heading = target.closest('.detail')?.querySelector('h2') ?? null;
      places.current = [target, heading, document.getElementById('main')];
    };
    const observer = new MutationObserver(() => {
      const [last, ...others] = places.current;
      if (!last || last.isConnected || document.activeElement !== document.body) return;
      const next = others.find((place) => place?.isConnected);
      if (next instanceof HTMLElement) next.focus({ preventScroll: true });
    });
    addEventListener('focusin', note);
    observer.observe(document.body, { childList: true, subtree: true });
    return () => {
      removeEventListener('focusin', note);
      observer.disconnect();
    };
  }, []);
}
