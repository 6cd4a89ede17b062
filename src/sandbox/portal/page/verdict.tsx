import type { ScenarioVerdict } from '../../api-types.ts';

/** The expectations of a scenario, and whether the integration met them. */
export function VerdictView({ verdict }: { verdict: ScenarioVerdict }) {
  return (
    <ul class="findings">
      {verdict.findings.map(({ expectation, observed, passed }) => (
        <li key={expectation} class={passed ? 'passed' : 'failed'}>
          <span class="sign" aria-hidden="true">
            {passed ? '✓' : '✕'}
          </span>
          <span>
            <span class="hidden">{passed ? 'Passed: ' : 'Failed: '}</span>
            {expectation} <span class="observed">{observed}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}

export const verdictWord = ({ passed }: ScenarioVerdict): string => (passed ? 'passed' : 'failed');
