/** Tries a token on a resource, on allowed origins only: redirects are not followed. */

import type { Result } from './report.ts';

/** The status of a GET, with this bearer token or with none. */
export async function statusOf(url: URL, token: string | undefined, signal: AbortSignal): Promise<number> {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const answer = await fetch(url, { redirect: 'manual', headers, signal });
  await answer.body?.cancel();
  return answer.status;
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

/** Compares the answers with a fresh token and without one. `ok` means that the resource distinguishes them. */
export function judgeProbe(without: number, status: number): Result {
  const facts = { statusWithout: without, status };
  if (isSuccess(status) && isSuccess(without)) {
    return {
      status: 'warning',
      text: `inconclusive: the resource answers ${without} even without a token`,
      facts,
    };
  }
  if (isSuccess(status))
    return { status: 'ok', text: `the resource accepts the token as Bearer (${status}; ${without} without it)`, facts };
  if (status === 401) {
    const advice =
      'The resource may expect the token elsewhere (ownerFetch option `present`), or learn of new tokens with a delay.';
    return { status: 'failed', text: 'the resource refuses a fresh token as Bearer (401)', advice, facts };
  }
  return { status: 'warning', text: `inconclusive: ${status} with the token, ${without} without`, facts };
}

/** Whether a second token revoked the first, from the statuses that the resource answered with each. */
export function judgeRevocation(statuses: { same: boolean; first: number; second: number }): Result {
  const { same, first, second } = statuses;
  const facts = { sameToken: same, ...(!same && { statusOfFirst: first, statusOfSecond: second }) };
  if (same)
    return { status: 'ok', text: 'the service issued the same token again, so neither revokes the other', facts };
  if (isSuccess(first)) {
    const text = 'the first token is still accepted right after the second was issued';
    return { status: 'ok', text, facts: { ...facts, revokesPrevious: false } };
  }
  if (first === 401 && isSuccess(second)) {
    const advice =
      'Another process that requests a token for this owner revokes yours: share tokens between replicas (docs/fleet.md).';
    const text = 'a second token revokes the first';
    return { status: 'warning', text, advice, facts: { ...facts, revokesPrevious: true } };
  }
  return {
    status: 'warning',
    text: `inconclusive: ${first} with the first token, ${second} with the second`,
    facts,
  };
}
