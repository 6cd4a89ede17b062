import { useEffect, useRef } from 'preact/hooks';

const KEYS = [
  ['/', 'Search'],
  ['?', 'This list'],
  ['↑ ↓', 'Previous or next request, in the list'],
  ['← →', 'Earlier or later, on the time rail; with Shift, select a span'],
  ['+ −', 'Zoom in or out, on the time rail'],
  ['Enter', 'Open a request, or zoom to the selected span'],
  ['Esc', 'Close what is open; on the time rail, back to now'],
] as const;

/** The keyboard shortcuts, and the dialog that lists them. */
export function Shortcuts() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const search = document.querySelector<HTMLInputElement>('[data-search]');
      if (event.key === '?') dialog.current?.showModal();
      else if (event.key === '/' && search) search.focus();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="shortcuts-heading">
      <h2 id="shortcuts-heading">Keyboard shortcuts</h2>
      <dl class="keys">
        {KEYS.map(([key, word]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{word}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);
