/** What several screens are made of. */

import { type ComponentChildren, createContext } from 'preact';
import { useContext, useEffect, useId, useRef, useState } from 'preact/hooks';
import { Refused, tellFailure } from './api.ts';
import { shapeAt } from './lanes.ts';
import type { MarkKind } from './words.ts';

/** Says something that is also read out. */
export const Say = createContext<(text: string) => void>(() => {});

/** Runs what a button does: one at a time, its failure told. */
export function useAction(): [busy: boolean, run: (action: () => Promise<string | undefined>) => void] {
  const say = useContext(Say);
  const [busy, setBusy] = useState(false);
  const run = (action: () => Promise<string | undefined>) => {
    if (busy) return;
    setBusy(true);
    action()
      .then(
        (done) => done && say(done),
        (error: unknown) => say(`Not done: ${tellFailure(error)}`),
      )
      .finally(() => setBusy(false));
  };
  return [busy, run];
}

/** A button for one call of the control plane. */
export function Action(props: {
  children: ComponentChildren;
  /** Gives what is to be said when it is done. */
  act: () => Promise<string | undefined>;
  label?: string;
  look?: 'main' | 'quiet' | 'danger';
  disabled?: boolean;
}) {
  const [busy, run] = useAction();
  return (
    <button
      type="button"
      class={props.look ?? 'plain'}
      aria-label={props.label}
      aria-busy={busy}
      disabled={props.disabled}
      onClick={() => run(props.act)}
    >
      {props.children}
    </button>
  );
}

export function Field(props: { label: string; hint?: string; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children(id)}
      {props.hint && <p class="hint">{props.hint}</p>}
    </div>
  );
}

export function Choice<T extends string>(props: {
  label: string;
  hint?: string;
  value: T;
  options: readonly (readonly [value: T, word: string])[];
  onChange: (value: T) => void;
}) {
  const { label, hint, value, options, onChange } = props;
  return (
    <Field label={label} {...(hint !== undefined && { hint })}>
      {(id) => (
        <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value as T)}>
          {options.map(([option, word]) => (
            <option key={option} value={option}>
              {word}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** Shows at once what was chosen, though who knows better may take a while to say so. */
export function Check(props: { label: string; checked: boolean; onChange: (checked: boolean) => void }) {
  const [checked, setChecked] = useState(props.checked);
  useEffect(() => setChecked(props.checked), [props.checked]);
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={checked}
        onChange={(event) => {
          setChecked(event.currentTarget.checked);
          props.onChange(event.currentTarget.checked);
        }}
      />
      {props.label}
    </label>
  );
}

/** A mark as it is in the picture, for legends and tables. What it means is always written beside it. */
export function Mark({ kind }: { kind: MarkKind }) {
  return (
    <svg class={`mark ${kind}`} width="12" height="12" viewBox="-6 -6 12 12" aria-hidden="true">
      <path d={shapeAt(kind, 0, 0, 4)} />
    </svg>
  );
}

/** A word for a state, told apart by shape as well. */
export function State({ good, children }: { good: boolean; children: ComponentChildren }) {
  return (
    <span class={good ? 'state good' : 'state bad'}>
      <span aria-hidden="true">{good ? '●' : '○'}</span> {children}
    </span>
  );
}

export function CopyButton({ text, children }: { text: () => Promise<string> | string; children: ComponentChildren }) {
  return (
    <Action
      act={async () => {
        // Missing where the page was not opened by a loopback address or over TLS.
        if (!navigator.clipboard)
          throw new Refused(0, 'this browser lets no page of this address copy; select the text');
        await navigator.clipboard.writeText(await text());
        return 'Copied.';
      }}
    >
      {children}
    </Action>
  );
}

/** A scrolling region of its own, for what is wider or longer than its place: reached and scrolled by keyboard too. */
export function Scroll(props: { label: string; class?: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable to be scrolled
    <section class={`scroll ${props.class ?? ''}`} aria-label={props.label} tabIndex={0}>
      {props.children}
    </section>
  );
}

/** The page's own clock, so many times a second. */
export function useTick(everyMs: number): number {
  const [nowMs, setNowMs] = useState(() => performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNowMs(performance.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return nowMs;
}

/** What was chosen from a list, in detail: it takes the focus, and gives it back to `from` when it is closed. */
export function Detail(props: { title: string; from: string; onClose: () => void; children: ComponentChildren }) {
  const { title, from, onClose, children } = props;
  const heading = useRef<HTMLHeadingElement>(null);
  const id = useId();
  useEffect(() => heading.current?.focus(), []);
  const close = () => {
    onClose();
    (document.getElementById(from) ?? document.getElementById('main'))?.focus();
  };
  return (
    <section class="detail" aria-labelledby={id} onKeyDown={(event) => event.key === 'Escape' && close()}>
      <div class="row heading">
        <h2 id={id} ref={heading} tabIndex={-1}>
          {title}
        </h2>
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
      {children}
    </section>
  );
}
