import { expect, it } from 'vitest';
import { Refused, tellFailure } from '../../../../src/sandbox/portal/page/api.ts';

it('a refusal of the control plane is shown without the words about the request', () => {
  const problem = 'lifetimeSeconds: expected seconds, from 0.001 to ten years';
  expect(tellFailure(new Refused(400, `request body: invalid options:\n  - ${problem}`))).toBe(problem);
  expect(tellFailure(new Refused(404, 'there is no owner nobody'))).toBe('there is no owner nobody');
  expect(tellFailure(new TypeError('Failed to fetch'))).toBe('The sandbox cannot be reached.');
});
