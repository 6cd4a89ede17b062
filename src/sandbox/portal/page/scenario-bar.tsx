import { useState } from 'preact/hooks';
import { useTick } from '../../../page-engine/hooks.ts';
import { timeOf } from '../../../page-engine/page-clock.ts';
import { spanWord } from '../../../page-engine/words.ts';
import type { ScenarioRun, ScenarioView } from '../../control/shapes.ts';
import { ask, send } from './api.ts';
import type { Model } from './model.ts';
import { Action, Section, useFetched } from './parts.tsx';
import { VerdictCard } from './verdict.tsx';

/** The scenarios with their last verdicts, fetched again when a run has started or ended, or both since. */
export const useScenarios = (model: Model): readonly ScenarioView[] =>
  useFetched<readonly ScenarioView[]>('/api/scenarios', [], model.ownersVersion);

export async function start({ name, title }: ScenarioView): Promise<string> {
  const run = await ask<ScenarioRun>('POST', `/api/scenarios/${name}`, {});
  return `${title}: started${run.owner ? ` for ${run.owner}` : ''}.`;
}

/** A button for each scenario, the running one, and the last verdict. */
export function ScenarioBar({ model }: { model: Model }) {
  const scenarios = useScenarios(model);
  const [seenAtMs, setSeenAtMs] = useState(0);
  const last = scenarios
    .filter(({ verdict }) => verdict !== undefined)
    .sort((a, b) => (b.verdict?.endedAtMs ?? 0) - (a.verdict?.endedAtMs ?? 0))[0];
  const shown = !model.scenario && last?.verdict && last.verdict.endedAtMs > seenAtMs ? last : undefined;
  return (
    <Section title="Run a scenario" class="scenarios">
      <ul>
        {scenarios.map((scenario) => (
          <li key={scenario.name} title={`${scenario.consequence} ${scenario.requires}`}>
            <Action look="chip" pressed={scenario.name === model.scenario?.name} act={() => start(scenario)}>
              {scenario.title}
            </Action>
          </li>
        ))}
      </ul>
      <Running model={model} scenarios={scenarios} />
      {shown?.verdict && (
        <VerdictCard verdict={shown.verdict} title={shown.title}>
          <button type="button" class="quiet" onClick={() => setSeenAtMs(shown.verdict?.endedAtMs ?? 0)}>
            Dismiss verdict
          </button>
        </VerdictCard>
      )}
    </Section>
  );
}

export function Running({ model, scenarios }: { model: Model; scenarios: readonly ScenarioView[] }) {
  const { scenario } = model;
  const nowMs = timeOf(model, useTick(1000));
  if (!scenario) return null;
  const title = scenarios.find(({ name }) => name === scenario.name)?.title ?? scenario.name;
  const left = (endMs: number) => spanWord(Math.max(0, Math.ceil((endMs - nowMs) / 1000) * 1000));
  const isFault = scenario.endsAtMs !== undefined && scenario.endsAtMs > nowMs;
  return (
    <p class="row running">
      <span>
        <strong>{title}</strong>
        {scenario.owner && `, ${scenario.owner}`}
        <span class="number">
          {isFault ? `, ${left(scenario.endsAtMs ?? 0)} left` : `, observing: verdict in ${left(scenario.verdictAtMs)}`}
        </span>
      </span>
      <Action act={() => send('The scenario has ended.', 'DELETE', '/api/scenarios')}>End scenario</Action>
    </p>
  );
}
