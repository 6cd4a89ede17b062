import { plural } from '../../../picture/words.ts';
import type { ScenarioVerdict } from '../../api-types.ts';
import { hashOf } from './address.ts';

type Finding = ScenarioVerdict['findings'][number] & { requests?: number[]; fromMs?: number; toMs?: number };

/** The expectations of a scenario, whether the integration met them, and the requests that show it. */
export function VerdictView({ verdict }: { verdict: ScenarioVerdict }) {
  return (
    <ul class="findings">
      {verdict.findings.map((finding) => (
        <li key={finding.expectation} class={finding.passed ? 'passed' : 'failed'}>
          <span class="sign" aria-hidden="true">
            {finding.passed ? '✓' : '✕'}
          </span>
          <span>
            <span class="hidden">{finding.passed ? 'Passed: ' : 'Failed: '}</span>
            {finding.expectation} <span class="observed">{finding.observed}</span> <Evidence finding={finding} />
          </span>
        </li>
      ))}
    </ul>
  );
}

/** Leads to the requests of a finding, in their window with a little around it. */
function Evidence({ finding: { requests, fromMs, toMs, expectation } }: { finding: Finding }) {
  if (!requests?.length || fromMs === undefined || toMs === undefined) return null;
  const marginMs = Math.max(500, (toMs - fromMs) / 10);
  const to = hashOf('live', {
    window: `${Math.ceil(toMs - fromMs + 2 * marginMs)}`,
    until: `${Math.ceil(toMs + marginMs)}`,
    requests: requests.join(),
    filter: 'all',
  });
  return (
    <a href={to} aria-label={`Show the requests of: ${expectation}`}>
      Show {plural(requests.length, 'request')}
    </a>
  );
}

export const verdictWord = ({ passed }: ScenarioVerdict): string => (passed ? 'passed' : 'failed');
