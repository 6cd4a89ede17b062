import type { Model } from './model.ts';
import { Action } from './parts.tsx';
import { Running, start, useScenarios } from './scenario-bar.tsx';

/** What happens to every integration sooner or later, each one click away. */
export function Scenarios({ model }: { model: Model }) {
  const scenarios = useScenarios();
  return (
    <>
      <p>
        Start one, and watch on the Live screen what the integration makes of it. Starting one ends the one that runs.
      </p>
      <Running model={model} scenarios={scenarios} />
      <ul class="scenario-list">
        {scenarios.map((scenario) => (
          <li key={scenario.name}>
            <h2>{scenario.title}</h2>
            <p>{scenario.description}</p>
            <Action
              label={`Run: ${scenario.title}`}
              act={async () => {
                const done = await start(scenario);
                location.hash = '#/live';
                return done;
              }}
            >
              Run
            </Action>
          </li>
        ))}
      </ul>
    </>
  );
}
