import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import type { Status as ConnectionState } from './connection.ts';
import { MARK_KINDS, type MarkKind } from './data.ts';
import { shapeAt } from './layout.ts';
import { MARK_WORDS, spanWord } from './words.ts';

/** A mark of the picture for legends and tables. Its meaning always stands beside it in words. */
export function Mark({ kind }: { kind: MarkKind }) {
  return (
    <svg class={`mark ${kind}`} width="12" height="12" viewBox="-6 -6 12 12" aria-hidden="true">
      <path d={shapeAt(kind, 0, 0, 4)} />
    </svg>
  );
}

/** Each mark with its column of the rail, in words. */
export function Legend() {
  return (
    <ul class="legend" aria-label="Legend">
      <li>
        <span class="swatch bar" aria-hidden="true" /> token
      </li>
      {MARK_KINDS.map((kind) => (
        <li key={kind}>
          <Mark kind={kind} /> <span class={`swatch ${kind}`} aria-hidden="true" /> {MARK_WORDS[kind]}
        </li>
      ))}
    </ul>
  );
}

/** A state in words, with a shape. */
export function Status({ good, children }: { good: boolean; children: ComponentChildren }) {
  return (
    <span class={good ? 'state good' : 'state bad'}>
      <span aria-hidden="true">{good ? '●' : '○'}</span> {children}
    </span>
  );
}

/** Whether an owner has a usable token, and for how long. */
export function TokenStatus({ endMs, nowMs, none }: { endMs: number | undefined; nowMs: number; none: string }) {
  if (endMs === undefined || endMs <= nowMs) return <Status good={false}>{none}</Status>;
  return <Status good={true}>valid {endMs === Infinity ? 'until rejected' : `for ${spanWord(endMs - nowMs)}`}</Status>;
}

/** A scrolling region that the keyboard can reach. */
export function Scroll(props: { label: string; class?: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable to be scrolled
    <section class={`scroll ${props.class ?? ''}`} aria-label={props.label} tabIndex={0}>
      {props.children}
    </section>
  );
}

/** The head of a column: of words, of numbers, or for screen readers alone. */
export type Head = string | { readonly number: string } | { readonly hidden: string };

/** A table in a scrolling region. `empty`: stands below it instead of rows. `looks`: classes of the region and the table. */
export function Table(props: {
  label: string;
  heads: readonly Head[];
  caption?: string;
  looks?: { region?: string; table?: string };
  empty?: string | false;
  onKeyDown?: (event: KeyboardEvent) => void;
  children: ComponentChildren;
}) {
  const { label, heads, caption, looks = {}, empty, onKeyDown, children } = props;
  return (
    <Scroll label={label} class={looks.region ?? ''}>
      <table class={looks.table}>
        {caption && <caption>{caption}</caption>}
        <thead>
          <tr>
            {heads.map((head) => {
              if (typeof head === 'string') return <th scope="col">{head}</th>;
              const isNumber = 'number' in head;
              return (
                <th scope="col" class={isNumber ? 'number' : undefined}>
                  {isNumber ? head.number : <span class="hidden">{head.hidden}</span>}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody onKeyDown={onKeyDown}>{children}</tbody>
      </table>
      {empty && <p class="empty">{empty}</p>}
    </Scroll>
  );
}

/** A key figure at the top of a page. `hint`: what it counts, and over which period. */
export function Figure(props: {
  word: string;
  value: string;
  unit?: string | undefined;
  tone?: 'warning' | 'alarm' | undefined;
  hint: ComponentChildren;
}) {
  const { word, value, unit, tone, hint } = props;
  return (
    <div>
      <dt>{word}</dt>
      <dd>
        <span class={`value ${tone ?? ''}`}>
          {value}
          {unit && <small>{unit}</small>}
          {tone === 'alarm' && (
            <small role="img" aria-label="alarm">
              {' '}
              ▲
            </small>
          )}
        </span>
        <span class="hint">{hint}</span>
      </dd>
    </div>
  );
}

/** Buttons of which at most one is pressed. */
export function Switch<Value extends string | number>(props: {
  legend: string;
  /** Undefined: none of them. */
  value: Value | undefined;
  options: readonly (readonly [value: Value, word: string])[];
  onChange: (value: Value) => void;
}) {
  return (
    <fieldset class="switch">
      <legend class="hidden">{props.legend}</legend>
      {props.options.map(([value, word]) => (
        <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {word}
        </button>
      ))}
    </fieldset>
  );
}

/** Switches between the picture and a table with the same content. */
export function ShownAs({ table, onChange }: { table: boolean; onChange: (table: boolean) => void }) {
  const options = [
    ['picture', 'Picture'],
    ['table', 'Table'],
  ] as const;
  const value = table ? 'table' : 'picture';
  return <Switch legend="Show as" value={value} options={options} onChange={(to) => onChange(to === 'table')} />;
}

export function Field(props: {
  label: string;
  /** What is wrong with the value. */
  problem?: string | undefined;
  children: (id: string) => ComponentChildren;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children(id)}
      {props.problem && (
        <p class="problem" id={`${id}-problem`}>
          {props.problem}
        </p>
      )}
    </div>
  );
}

export function Choice<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [value: T, word: string])[];
  onChange: (value: T) => void;
}) {
  const { label, value, options, onChange } = props;
  return (
    <Field label={label}>
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

export const STATUS_WORDS: Readonly<Record<ConnectionState, string>> = {
  connecting: 'Connecting',
  live: 'Connected',
  silent: 'No data yet. A proxy probably buffers the stream: see “Behind a proxy” in the docs',
  lost: 'Connection lost, trying again',
  refused: 'You may no longer see this page: sign in again',
};

export function ConnectionStatus({ status }: { status: ConnectionState }) {
  return (
    <p class={status === 'live' || status === 'connecting' ? 'connection' : 'connection lost'}>
      <span aria-hidden="true">{status === 'live' ? '●' : '○'}</span> {STATUS_WORDS[status]}
    </p>
  );
}
