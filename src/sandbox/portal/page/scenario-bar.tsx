import { useEffect, useState } from 'preact/hooks';
import type { ScenarioRun, ScenarioView } from '../../api-types.ts';
import { ask } from './api.ts';
import { type Model, timeOf } from './model.ts';
import { Action, useTick } from './parts.tsx';
import { spanWord } from './words.ts';

/** The scenarios that there are. */
export function useScenarios(): readonly ScenarioView[] {
  const [scenarios, setScenarios] = useState<readonly ScenarioView[]>([]);
  useEffect(() => {
    ask<ScenarioView[]>('GET', '/api/scenarios').then(setScenarios, () => {});
  }, []);
  return scenarios;
}

export async function start({ name, title }: ScenarioView): Promise<string> {
  const run = await ask<ScenarioRun>('POST', `/api/scenarios/${name}`, {});
  return `${title}: started${run.owner ? ` for ${run.owner}` : ''}.`;
}

/** Every scenario one click away, and the one that runs with what is left of it. */
export function ScenarioBar({ model }: { model: Model }) {
  const scenarios = useScenarios();
  return (
    <section class="scenarios" aria-labelledby="scenario-heading">
      <h2 id="scenario-heading">Run a scenario</h2>
      <ul class="row">
        {scenarios.map((scenario) => (
          <li key={scenario.name}>
            <Action look="quiet" act={() => start(scenario)}>
              {scenario.title}
            </Action>
          </li>
        ))}
      </ul>
      <Running model={model} scenarios={scenarios} />
    </section>
  );
}

export function Running({ model, scenarios }: { model: Model; scenarios: readonly ScenarioView[] }) {
  const { scenario } = model;
  const nowMs = timeOf(model, useTick(1000));
  if (!scenario) return null;
  const title = scenarios.find(({ name }) => name === scenario.name)?.title ?? scenario.name;
  const leftMs = scenario.endsAtMs === undefined ? undefined : Math.max(0, scenario.endsAtMs - nowMs);
  return (
    <p class="row running">
      <span>
        <strong>{title}</strong>
        {scenario.owner && `, ${scenario.owner}`}
        <span class="number">
          {leftMs === undefined ? ', in force' : `, ${spanWord(Math.ceil(leftMs / 1000) * 1000)} left`}
        </span>
      </span>
      <Action
        act={async () => {
          await ask('DELETE', '/api/scenarios');
          return 'The scenario has ended.';
        }}
      >
        End it
      </Action>
    </p>
  );
}
