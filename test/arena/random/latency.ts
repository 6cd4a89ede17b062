/** How long tokens take. */

import { MIN, SEC } from '../../world/setting.ts';
import { allowMs, type Draft, drawMoment, seconds } from './draft.ts';

export function drawLatency(draft: Draft): void {
  const { random, said } = draft;
  const ms = random.span(15, 800);
  const slowMs = random.span(1_000, 5_000);
  switch (random.pick(['constant', 'constant', 'classes', 'tail', 'wave', 'spell'] as const)) {
    case 'constant':
      draft.latencyMs = ms;
      said.push(`${ms} ms`);
      return;
    case 'classes':
      draft.latencyMs = ({ number }) => (number % 10 === 0 ? slowMs : ms);
      said.push(`${ms} ms, a tenth of the owners ${slowMs} ms`);
      break;
    case 'tail':
      draft.latencyMs = (_request, service) => (service.random() < 0.02 ? slowMs : ms);
      said.push(`${ms} ms, 2 % ${slowMs} ms`);
      break;
    case 'wave': {
      const periodMs = random.span(MIN, 10 * MIN);
      draft.latencyMs = ({ atMs }) => ms * (2 - Math.cos((2 * Math.PI * atMs) / periodMs));
      said.push(`${ms} to ${3 * ms} ms`);
      break;
    }
    case 'spell': {
      const fromMs = drawMoment(draft);
      const toMs = fromMs + random.span(10 * SEC, 2 * MIN);
      draft.latencyMs = ({ atMs }) => (atMs >= fromMs && atMs < toMs ? slowMs : ms);
      said.push(`${ms} ms, for ${seconds(toMs - fromMs)} ${slowMs} ms`);
      break;
    }
  }
  allowMs(draft, 2 * slowMs);
}
