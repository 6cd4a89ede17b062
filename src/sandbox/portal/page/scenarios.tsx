import { timeWord } from '../../../page-engine/words.ts';
import type { Model } from './model.ts';
import { Action } from './parts.tsx';
import { Running, start, useScenarios } from './scenario-bar.tsx';
import { VerdictCard } from './verdict.tsx';

/** The scenarios, each with a button to run it and the verdict of its last run. */
export function Scenarios({ model }: { model: Model }) {
  const scenarios = useScenarios(model);
  return (
    <>
      <p class="lead">
        Start a scenario while your integration runs. Each ends in a verdict. In CI:{' '}
        <code>await sandbox.scenarios.run(name)</code>, or <code>POST /api/scenarios/{'{name}'}/run</code>. Starting one
        ends the running one.
      </p>
      <Running model={model} scenarios={scenarios} />
      <ul class="scenario-list">
        {scenarios.map((scenario) => {
          const { name, title, description, consequence, requires, verdict } = scenario;
          const running = model.scenario?.name === name;
          return (
            <li key={name} class={running ? 'card running-card' : 'card'}>
              <h2>
                {title}
                {running && <span class="tag">running</span>}
              </h2>
              <p>{description}</p>
              <p class="consequence">
                {consequence} <span class="block">For a verdict: {requires}</span>
              </p>
              <Action
                look="main"
                label={`Run: ${title}`}
                act={async () => {
                  const done = await start(scenario);
                  location.hash = '#/live';
                  return done;
                }}
              >
                Run
              </Action>
              {verdict ? (
                <VerdictCard verdict={verdict} title={`Last run at ${timeWord(verdict.startedAtMs)}`} />
              ) : (
                <p class="hint">Not run yet.</p>
              )}
            </li>
          );
        })}
      </ul>
    </>
  );
}
