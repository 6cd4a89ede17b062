import { useTick } from '../../../page-engine/hooks.ts';
import { timeOf } from '../../../page-engine/page-clock.ts';
import { Table } from '../../../page-engine/parts.tsx';
import { countWord } from '../../../page-engine/words.ts';
import { send } from './api.ts';
import { FaultForm } from './fault-form.tsx';
import type { Model } from './model.ts';
import { Action, Section } from './parts.tsx';
import { faultWord, isActive, leftWord, targetWord, whenWord } from './words.ts';

/** The fault rules, and the form for another. */
export function Faults({ model }: { model: Model }) {
  const removeAll = (
    <Action disabled={model.faults.length === 0} act={() => send('Every fault is removed.', 'DELETE', '/api/faults')}>
      Remove all
    </Action>
  );
  return (
    <div class="two">
      <Section title="Rules" beside={removeAll}>
        <p class="hint">
          When several rules apply to a request, the oldest wins; latency adds its delay and lets the next one apply. A
          removed rule has no further effect.
        </p>
        <FaultTable model={model} />
      </Section>
      <FaultForm />
    </div>
  );
}

function FaultTable({ model }: { model: Model }) {
  const nowMs = timeOf(model, useTick(1000));
  if (model.faults.length === 0) {
    return <p class="empty">No faults: every request gets its correct answer. Choose a preset, or describe a fault.</p>;
  }
  return (
    <Table
      label="Fault rules"
      heads={['Fault', 'Target', 'When', { number: 'Hits' }, 'Left', { hidden: 'Remove' }]}
      looks={{ table: 'stack' }}
    >
      {model.faults.map((rule) => (
        <tr key={rule.id}>
          <th scope="row">{faultWord(rule)}</th>
          <td data-word="Target">{targetWord(rule.target, rule.kind)}</td>
          <td data-word="When">{whenWord(rule.when)}</td>
          <td data-word="Hits" class="number">
            {countWord(rule.hits)}
          </td>
          <td data-word="Left">
            <span class={isActive(rule, nowMs) ? 'number' : 'hint'}>{leftWord(rule, nowMs)}</span>
          </td>
          <td>
            <Action
              look="quiet"
              label={`Remove ${faultWord(rule)}, ${rule.id}`}
              act={() => send('The fault is removed.', 'DELETE', `/api/faults/${rule.id}`)}
            >
              Remove
            </Action>
          </td>
        </tr>
      ))}
    </Table>
  );
}
