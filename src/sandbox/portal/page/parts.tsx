/** Parts that several screens share. */

import { type ComponentChildren, createContext } from 'preact';
import { useContext, useEffect, useId, useRef, useState } from 'preact/hooks';
import { Field } from '../../../page-engine/parts.tsx';
import { sentence } from '../../../page-engine/words.ts';
import { setParams } from './address.ts';
import { ask, Refused, send, tellFailure } from './api.ts';

/** Announces a text, for screen readers too. */
export const Say = createContext<(text: string) => void>(() => {});

/** Runs the action of a button, one at a time, and announces its failure. */
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
  /** Resolves with the announcement. */
  act: () => Promise<string | undefined>;
  label?: string;
  look?: 'main' | 'quiet' | 'danger' | 'chip';
  pressed?: boolean;
  disabled?: boolean;
}) {
  const [busy, run] = useAction();
  return (
    <button
      type="button"
      class={props.look ?? 'plain'}
      aria-label={props.label}
      aria-busy={busy}
      aria-pressed={props.pressed}
      disabled={props.disabled}
      onClick={() => run(props.act)}
    >
      {props.children}
    </button>
  );
}

/** A button that disables what is enabled, or the other way round. `name`: as the announcement begins, `key k1`. */
export function Toggle({ path, name, enabled }: { path: string; name: string; enabled: boolean }) {
  const word = enabled ? 'Disable' : 'Enable';
  const said = `${sentence(name)} is ${enabled ? 'disabled' : 'enabled'}.`;
  return (
    <Action look="quiet" label={`${word} ${name}`} act={() => send(said, 'PATCH', path, { enabled: !enabled })}>
      {word}
    </Action>
  );
}

/** A section under its heading. `beside`: controls beside the heading. */
export function Section(props: {
  title: string;
  class?: string;
  beside?: ComponentChildren;
  children: ComponentChildren;
}) {
  const id = useId();
  return (
    <section class={props.class} aria-labelledby={id}>
      <div class="row heading">
        <h2 id={id}>{props.title}</h2>
        {props.beside}
      </div>
      {props.children}
    </section>
  );
}

/** The search for owners, which the address holds. */
export function Search({ label, text }: { label: string; text: string }) {
  return (
    <label class="inline">
      <span>{label}</span>
      <input type="search" value={text} onInput={(event) => setParams({ search: event.currentTarget.value })} />
    </label>
  );
}

/** A field for a line of text. `onInput`: at each key; `onChange`: on Enter or when it loses the focus. */
export function TextField(props: {
  label: string;
  value: string;
  numeric?: boolean;
  problem?: string | undefined;
  onInput?: (text: string) => void;
  onChange?: (text: string) => void;
}) {
  const { label, value, numeric, problem, onInput, onChange } = props;
  return (
    <Field label={label} problem={problem}>
      {(id) => (
        <input
          id={id}
          type="text"
          inputMode={numeric ? 'decimal' : 'text'}
          aria-invalid={problem !== undefined}
          aria-describedby={problem === undefined ? undefined : `${id}-problem`}
          value={value}
          onInput={(event) => onInput?.(event.currentTarget.value)}
          onChange={(event) => onChange?.(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** A form of one text field and a button. `act`: what the button does with the text; it empties a field without `start`. */
export function OneField(props: {
  label: string;
  button: string;
  start?: string;
  act: (text: string) => Promise<string>;
}) {
  const { label, button, start = '', act } = props;
  const [text, setText] = useState(start);
  const [busy, run] = useAction();
  const submit = async () => {
    const said = await act(text.trim());
    setText(start && text);
    return said;
  };
  return (
    <form
      class="row end"
      onSubmit={(event) => {
        event.preventDefault();
        run(submit);
      }}
    >
      <TextField label={label} value={text} numeric={start !== ''} onInput={setText} />
      <button type="submit" aria-busy={busy}>
        {button}
      </button>
    </form>
  );
}

/** Shows the choice at once; the server confirms it later. */
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

export function CopyButton({ text, children }: { text: () => Promise<string> | string; children: ComponentChildren }) {
  return (
    <Action
      act={async () => {
        // Browsers offer a clipboard only on loopback addresses and over TLS.
        if (!navigator.clipboard)
          throw new Refused(0, 'the browser allows copying only on loopback or over TLS; select the text instead');
        await navigator.clipboard.writeText(await text());
        return 'Copied.';
      }}
    >
      {children}
    </Action>
  );
}

/** What the control plane answers, fetched again whenever `again` changes. Without an answer, the last one remains. */
export function useFetched<T>(path: string, start: T, ...again: unknown[]): T {
  const [fetched, setFetched] = useState(start);
  useEffect(() => {
    ask<T>('GET', path).then(setFetched, () => {});
  }, [path, ...again]);
  return fetched;
}

/** Names and values. A row without a value is left out. */
export function DescriptionList({ rows }: { rows: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {rows.map(([name, value]) =>
        value === undefined || value === '' ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

/** The chosen item of a list in detail. Takes the focus, and returns it to `from` when it is closed. */
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
