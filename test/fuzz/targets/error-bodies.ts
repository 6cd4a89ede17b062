/** Error responses, and the errors that other HTTP clients make of them. */

import fc from 'fast-check';
import { type EndpointFailure, OwnerTokenRegistry, TokenEndpoint } from '../../../src/index.ts';
import { SECRETS } from '../../helpers/canaries.ts';
import { ManualClock } from '../../helpers/manual-clock.ts';
import { ScriptedSource } from '../../helpers/scripted-source.ts';
import { mustBeTyped, mustNotLeak, outcomeOf } from '../checks.ts';
import { echoesOf, jsonOf, mostly, mutated, oddValues, texts } from '../inputs.ts';
import { must, targetOf } from '../target.ts';

const { clientSecret, accessKey } = SECRETS;
const echoes = echoesOf(clientSecret, accessKey);

const descriptions = mutated(
  fc.oneof(
    echoes.map((echo) => `there is no ${echo} here`),
    fc.tuple(texts, texts).map((both) => both.join(' ')),
    fc.constant('The contract of this tenant has ended.'),
  ),
);
const bodies = fc.oneof(
  {
    weight: 6,
    arbitrary: jsonOf({
      error: mostly(
        fc.oneof(
          fc.constantFrom('invalid_client', 'invalid_grant', 'invalid_request', 'slow_down', 'server_error'),
          fc.constant('tenant_suspended'),
          echoes,
        ),
      ),
      error_description: mostly(descriptions),
      error_uri: oddValues,
      request: echoes,
    }),
  },
  { weight: 2, arbitrary: mutated(fc.constant('<!doctype html><!-- a --><html><body>403 Forbidden</body></html>')) },
  { weight: 1, arbitrary: fc.nat(60).map((times) => `${'<!-- -'.repeat(times)}<html>`) },
  { weight: 1, arbitrary: texts },
);
const statuses = fc.oneof(
  fc.constantFrom(400, 401, 403, 404, 407, 408, 429, 500, 503),
  fc.integer({ min: 300, max: 599 }),
);

/** What a source may throw that uses another client. */
const foreign = fc.record(
  {
    message: texts,
    code: mostly(fc.constantFrom('ECONNRESET', 'ERR_BAD_REQUEST', 'UND_ERR_BODY_TIMEOUT')),
    status: mostly(statuses),
    error: mostly(fc.constantFrom('invalid_client', 'server_error')),
    headers: mostly(fc.record({ 'Retry-After': texts })),
    response: mostly(fc.record({ status: mostly(statuses), data: mostly(bodies), headers: oddValues })),
    cause: mostly(fc.record({ code: texts, errors: fc.array(oddValues, { maxLength: 3 }) })),
  },
  { requiredKeys: [] },
);

async function refusalBy(source: ConstructorParameters<typeof OwnerTokenRegistry>[0]['source'], clock: ManualClock) {
  const registry = new OwnerTokenRegistry({ source, clock, random: () => 0.5 });
  const outcome = await outcomeOf(registry.getToken(accessKey), clock);
  must(outcome.status === 'rejected', 'the call succeeded');
  mustBeTyped(outcome.reason, clock.now());
  mustNotLeak('the error', outcome.reason);
  mustNotLeak('the state', registry.describe(accessKey));
}

export const errorBodies = targetOf(
  'error responses',
  fc.record({ status: statuses, body: bodies, retryAfter: fc.option(texts, { nil: undefined }), foreign }),
  async ({ status, body, retryAfter, foreign: thrown }) => {
    const clock = new ManualClock();
    const seen: EndpointFailure[] = [];
    const fetch = async () => {
      const headers = new Headers();
      if (retryAfter !== undefined && /^[\x20-\x7e]*$/.test(retryAfter)) headers.set('retry-after', retryAfter);
      const isEmpty = status === 304;
      return new Response(isEmpty ? null : body, { status, headers });
    };
    const classifyFailure = (failure: EndpointFailure) => void seen.push(failure) as undefined;
    const options = { clientId: 'client', clientSecret, clock, fetch, classifyFailure };
    await refusalBy(new TokenEndpoint({ baseUrl: 'https://service.example', ...options }), clock);
    for (const { oauthError = 'x', retryAfterMs = 0 } of seen) {
      must(/^[\x21-\x7e]{1,64}$/.test(oauthError), `an OAuth code of ${oauthError}`);
      must(retryAfterMs >= 0, `Retry-After of ${retryAfterMs} ms`);
    }
    await refusalBy(new ScriptedSource((call) => call.fail(Object.assign(new Error('x'), thrown))), clock);
  },
);
