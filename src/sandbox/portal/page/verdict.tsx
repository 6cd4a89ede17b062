import type { ComponentChildren } from 'preact';
import { plural } from '../../../page-engine/words.ts';
import type { ScenarioVerdict } from '../../control/shapes.ts';
import { hashOf } from './address.ts';

/**
 * A verdict under its title: why there is none, what must have happened for one, and the expectations of the scenario with
 * the requests that show whether the integration met them.
 */
export function VerdictCard(props: { verdict: ScenarioVerdict; title: string; children?: ComponentChildren }) {
  const { verdict, title, children } = props;
  return (
    <div class={`verdict ${verdict.verdict.replace(' ', '-')}`}>
      <div class="row heading">
        <h3>
          {title}: {verdict.verdict}
        </h3>
        {children}
      </div>
      {verdict.reason && <p>{verdict.reason}</p>}
      <ul class="findings">
        {verdict.conditions.map(({ condition, observed, met }) => (
          <Line key={condition} look="condition" sign={met ? '✓' : '–'} word={met ? 'Met' : 'Not met'}>
            {condition} <span class="observed">{observed}</span>
          </Line>
        ))}
        {verdict.findings.map((finding) => (
          <Line
            key={finding.expectation}
            look={finding.passed ? 'passed' : 'failed'}
            sign={finding.passed ? '✓' : '✕'}
            word={finding.passed ? 'Passed' : 'Failed'}
          >
            {finding.expectation} <span class="observed">{finding.observed}</span> <Evidence finding={finding} />
          </Line>
        ))}
      </ul>
    </div>
  );
}

function Line(props: { look: string; sign: string; word: string; children: ComponentChildren }) {
  return (
    <li class={props.look}>
      <span class="sign" aria-hidden="true">
        {props.sign}
      </span>
      <span>
        <span class="hidden">{props.word}: </span>
        {props.children}
      </span>
    </li>
  );
}

/** Leads to the requests of a finding, in their window with a little around it. */
function Evidence({ finding }: { finding: ScenarioVerdict['findings'][number] }) {
  const { requests, fromMs, toMs, expectation } = finding;
  if (!requests || fromMs === undefined || toMs === undefined) return null;
  const marginMs = Math.max(500, (toMs - fromMs) / 10);
  const to = hashOf('live', {
    window: `${Math.ceil(toMs - fromMs + 2 * marginMs)}`,
    until: `${Math.ceil(toMs + marginMs)}`,
    requests: requests.join(),
    filter: 'all',
  });
  const word = plural(requests.length, 'request');
  return (
    <a href={to} aria-label={`Show ${word} of: ${expectation}`}>
      Show {word}
    </a>
  );
}
