import { useTick } from '../../../page-engine/hooks.ts';
import { timeOf } from '../../../page-engine/page-clock.ts';
import { Figure } from '../../../page-engine/parts.tsx';
import { send } from './api.ts';
import { headlineOf } from './headline.ts';
import type { Model } from './model.ts';
import { Action } from './parts.tsx';
import { faultWord, isActive, leftWord, targetWord } from './words.ts';

/** Request rate, success, owners covered and wasted requests, from the server's exact counts. */
export function Figures({ model, windowMs }: { model: Model; windowMs: number }) {
  const nowMs = timeOf(model, useTick(500));
  const { figures, recent: seconds, clock } = model;
  const active = model.faults.filter((rule) => isActive(rule, nowMs));
  const faulty = active.some(({ target }) => target.path !== 'echo');
  const headline = headlineOf({ figures, seconds, faulty, frozen: clock.frozen, windowMs, nowMs });
  return (
    <dl class="figures">
      <Figure word="Token requests" unit="/s" {...headline.rate} />
      <Figure word="Success" {...headline.success} />
      <Figure word="Owners covered" {...headline.covered} />
      <Figure word="Wasted requests" {...headline.wasted} />
      <div class="wide">
        <dt>Active faults</dt>
        <dd>
          {active.length === 0 ? <span class="hint">None now</span> : <ActiveFaults active={active} nowMs={nowMs} />}
        </dd>
      </div>
    </dl>
  );
}

function ActiveFaults({ active, nowMs }: { active: Model['faults']; nowMs: number }) {
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
            act={() => send('The fault is removed.', 'DELETE', `/api/faults/${rule.id}`)}
          >
            Remove
          </Action>
        </li>
      ))}
    </ul>
  );
}
