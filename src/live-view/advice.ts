/** What to do about a failure, by its code: the sentence of `docs/errors.md`, and where to read more. */

import type { OwnerTokenErrorCode } from '../errors/owner-token-error.ts';

interface Advice {
  /** Who can end it. */
  readonly fault: string;
  readonly todo: string;
  /** The heading of the runbook. */
  readonly runbook: string;
}

const SERVICE = 'The token service';
const OWNERS = 'The access keys of these owners';
const LOAD = 'This application: it makes more calls than the service takes';
const CODE = 'This application’s own code';

const ADVICE: Partial<Readonly<Record<OwnerTokenErrorCode, Advice>>> = {
  owner_refused: {
    fault: OWNERS,
    todo: 'Get a current access key for this owner',
    runbook: 'ownertokencallsrefused',
  },
  client_refused: {
    fault: 'The client id or secret of this application',
    todo: 'Fix the credentials. Requests resume by themselves after the next attempt that succeeds; resume() allows one at once',
    runbook: 'ownertokenclientrefused',
  },
  rate_limited: {
    fault: LOAD,
    todo: 'Nothing: requests slow down by themselves. If it happens often, share tokens between replicas or set requestsPerSecond',
    runbook: 'ownertokenendpointunavailable',
  },
  endpoint_unavailable: {
    fault: SERVICE,
    todo: 'Wait: requests resume by themselves, and cached tokens are served until they expire. If it lasts, tell the operator of the service',
    runbook: 'ownertokenendpointunavailable',
  },
  invalid_response: {
    fault: SERVICE,
    todo: 'If it persists, set parseResponse or correct baseUrl',
    runbook: 'ownertokenendpointunavailable',
  },
  redirect_refused: {
    fault: 'The address of the token service',
    todo: 'Set baseUrl to the final address',
    runbook: 'ownertokenendpointunavailable',
  },
  token_rejected: {
    fault: 'The API that the tokens are for',
    todo: 'Check the API, the owner’s permissions, and the clocks',
    runbook: 'ownertokenrejectedbyapi',
  },
  source_failed: { fault: CODE, todo: 'Look at cause', runbook: 'ownertokenclientrefused' },
  queue_full: {
    fault: LOAD,
    todo: 'Shed the call, or raise concurrency if the service can take it',
    runbook: 'ownertokenqueueslow',
  },
  queue_timeout: {
    fault: LOAD,
    todo: 'Make fewer calls, or raise concurrency, requestsPerSecond or maxQueueMs',
    runbook: 'ownertokenqueueslow',
  },
};

const PACED =
  'Make fewer calls, share tokens between replicas, or ask for a higher limit: requests are paced because the service answers with 429 or 503';

/** Of any other code, which only a source of the host's can throw. */
const OTHER: Advice = { fault: CODE, todo: 'Look at the error that the token source threw', runbook: '' };

/** @param paced whether answers of the service have slowed requests down. More concurrency would not help then. */
export function adviceFor(code: OwnerTokenErrorCode, paced = false): Advice {
  const advice = ADVICE[code] ?? OTHER;
  return paced && code.startsWith('queue_') ? { ...advice, todo: PACED } : advice;
}
