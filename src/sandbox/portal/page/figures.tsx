import { MARK_KINDS } from '../../state/marks.ts';
import { ask } from './api.ts';
import { countsBetween, type Model, timeOf } from './model.ts';
import { Action, useTick } from './parts.tsx';
import { countWord, faultWord, isActive, leftWord, plural, spanWord, targetWord } from './words.ts';

const RATE_WINDOW_MS = 10_000;

/** Request rate, success, owners covered and wasted requests, from the server's exact counts. */
export function Figures({ model, windowMs }: { model: Model; windowMs: number }) {
  const nowMs = timeOf(model, useTick(500));
  const { figures, seconds } = model;
  const counts = countsBetween(seconds, nowMs - windowMs, nowMs);
  const of = (...kinds: (typeof MARK_KINDS)[number][]) =>
    kinds.reduce((sum, kind) => sum + (counts[MARK_KINDS.indexOf(kind)] ?? 0), 0);
  const good = of('ok', 'wasted');
  const bad = of('limited', 'error', 'broken', 'refused');
  const recent = countsBetween(seconds, nowMs - RATE_WINDOW_MS, nowMs).reduce((sum, count) => sum + count, 0);
  const share = good + bad > 0 ? good / (good + bad) : undefined;
  return (
    <dl class="figures">
      <Figure word="Token requests" value={(recent / (RATE_WINDOW_MS / 1000)).toFixed(1)} unit="/s">
        {`${countWord(figures.tokenRequests)} so far, ${figures.inFlight} in flight`}
      </Figure>
      <Figure
        word="Success"
        value={share === undefined ? '–' : percent(share)}
        tone={share === undefined || share >= 0.99 ? undefined : share >= 0.9 ? 'warning' : 'alarm'}
      >
        {`${plural(bad, 'failure')}, last ${spanWord(windowMs)}`}
      </Figure>
      <Figure word="Owners covered" value={countWord(figures.ownersCovered)}>
        {`of ${countWord(figures.owners)}, with a usable token`}
      </Figure>
      <Figure
        word="Wasted requests"
        value={countWord(figures.wasted)}
        tone={figures.wasted > 0 ? 'warning' : undefined}
      >
        the owner had a good token
      </Figure>
      <div class="wide">
        <dt>Active faults</dt>
        <dd>
          <ActiveFaults model={model} nowMs={nowMs} />
        </dd>
      </div>
    </dl>
  );
}

function Figure(props: {
  word: string;
  value: string;
  unit?: string;
  tone?: 'warning' | 'alarm' | undefined;
  children: string;
}) {
  return (
    <div>
      <dt>{props.word}</dt>
      <dd>
        <span class={`value ${props.tone ?? ''}`}>
          {props.value}
          {props.unit && <small>{props.unit}</small>}
        </span>
        <span class="hint">{props.children}</span>
      </dd>
    </div>
  );
}

function ActiveFaults({ model, nowMs }: { model: Model; nowMs: number }) {
  const active = model.faults.filter((rule) => isActive(rule, nowMs));
  if (active.length === 0) return <span class="hint">None</span>;
  return (
    <ul>
      {active.map((rule) => (
        <li key={rule.id} class="active-fault">
          <span>
            <strong>{faultWord(rule)}</strong> <span class="hint">{targetWord(rule.target, rule.kind)}</span>
            <span class="hint number"> · {leftWord(rule, nowMs)}</span>
          </span>
          <Action
            look="quiet"
            label={`Remove the fault ${faultWord(rule)}`}
            act={async () => {
              await ask('DELETE', `/api/faults/${rule.id}`);
              return 'The fault is removed.';
            }}
          >
            Remove
          </Action>
        </li>
      ))}
    </ul>
  );
}

/** Rounds down to 99.9 % unless every request succeeded. */
const percent = (share: number): string => `${share === 1 ? 100 : Math.min(99.9, share * 100).toFixed(1)}%`;
