import { ask } from './api.ts';
import { liveToken, type Model, rateOf, timeOf } from './model.ts';
import { Action, useTick } from './parts.tsx';
import { countWord, faultWord, isActive, leftWord, plural, targetWord } from './words.ts';

/** What one asks first: how much, how well, for whom, how much for nothing. */
export function Figures({ model }: { model: Model }) {
  const pageMs = useTick(500);
  const { summary, lanes, owners } = model;
  const { pending = 0, issued = 0, accepted = 0 } = summary.byOutcome;
  const done = summary.total - pending;
  const nowMs = timeOf(model, pageMs);
  let covered = 0;
  for (const lane of lanes.values()) if (lane.id !== '' && liveToken(lane, nowMs)) covered++;
  return (
    <dl class="figures">
      <Figure word="Rate" value={rateOf(model.samples, pageMs).toFixed(1)} unit="/s">
        {plural(summary.total, 'request')}
      </Figure>
      <Figure word="Success" value={done > 0 ? percent((issued + accepted) / done) : '–'}>
        {plural(done - issued - accepted, 'failure')}
      </Figure>
      <Figure word="Owners covered" value={countWord(covered)}>
        of {countWord(owners.length)}, with a good token
      </Figure>
      <Figure word="Wasted requests" value={countWord(summary.wasted)} alarming={summary.wasted > 0}>
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

function Figure(props: { word: string; value: string; unit?: string; alarming?: boolean; children: unknown }) {
  return (
    <div>
      <dt>{props.word}</dt>
      <dd>
        <span class={props.alarming ? 'value alarming' : 'value'}>
          {props.value}
          {props.unit && <small>{props.unit}</small>}
        </span>
        <span class="hint">{props.children as string}</span>
      </dd>
    </div>
  );
}

function ActiveFaults({ model, nowMs }: { model: Model; nowMs: number }) {
  const active = model.faults.filter((rule) => isActive(rule, nowMs));
  if (active.length === 0) return <span class="hint">None. The service behaves.</span>;
  return (
    <ul class="plainlist">
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

/** Never rounded up to all: 100 % means all. */
const percent = (share: number): string => `${share === 1 ? 100 : Math.min(99.9, share * 100).toFixed(1)}%`;
