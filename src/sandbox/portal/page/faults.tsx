import { Scroll } from '../../../picture/parts.tsx';
import { countWord } from '../../../picture/words.ts';
import { ask } from './api.ts';
import { FaultForm } from './fault-form.tsx';
import { type Model, timeOf } from './model.ts';
import { Action, useTick } from './parts.tsx';
import { faultWord, isActive, leftWord, targetWord, whenWord } from './words.ts';

/** The fault rules, and the form for another. */
export function Faults({ model }: { model: Model }) {
  return (
    <div class="two">
      <section aria-labelledby="rules-heading">
        <div class="row heading">
          <h2 id="rules-heading">Rules</h2>
          <Action
            disabled={model.faults.length === 0}
            act={async () => {
              await ask('DELETE', '/api/faults');
              return 'Every fault is removed.';
            }}
          >
            Remove all
          </Action>
        </div>
        <p class="hint">
          When several rules apply to a request, the oldest wins; latency adds its delay and lets the next one apply. A
          removed rule has no further effect.
        </p>
        <FaultTable model={model} />
      </section>
      <FaultForm apps={model.apps} />
    </div>
  );
}

function FaultTable({ model }: { model: Model }) {
  const nowMs = timeOf(model, useTick(1000));
  if (model.faults.length === 0) {
    return <p class="empty">No faults: every request gets its correct answer. Choose a preset, or describe a fault.</p>;
  }
  return (
    <Scroll label="Fault rules">
      <table class="stack">
        <thead>
          <tr>
            <th scope="col">Fault</th>
            <th scope="col">Target</th>
            <th scope="col">When</th>
            <th scope="col" class="number">
              Hits
            </th>
            <th scope="col">Left</th>
            <th scope="col">
              <span class="hidden">Remove</span>
            </th>
          </tr>
        </thead>
        <tbody>
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
                  act={async () => {
                    await ask('DELETE', `/api/faults/${rule.id}`);
                    return 'The fault is removed.';
                  }}
                >
                  Remove
                </Action>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
