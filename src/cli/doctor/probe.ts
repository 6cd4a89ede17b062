/** A token tried on a resource. It goes to the origins that were named, and nowhere else: redirects are not followed. */

import type { Found } from './report.ts';

/** The status of a GET, with this token as bearer or with none. */
export async function statusOf(url: URL, token: string | undefined, signal: AbortSignal): Promise<number> {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const answer = await fetch(url, { redirect: 'manual', headers, signal });
  await answer.body?.cancel();
  return answer.status;
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

/** What a resource made of a fresh token, beside what it makes of none. Only `ok` shows that it tells them apart. */
export function verdictOnProbe(without: number, status: number): Found {
  const facts = { statusWithout: without, status };
  if (isSuccess(status) && isSuccess(without)) {
    return {
      status: 'warning',
      text: `it lets in anybody (${without} without a token), so that nothing can be told`,
      facts,
    };
  }
  if (isSuccess(status))
    return { status: 'ok', text: `the token is accepted as Bearer (${status}; ${without} without)`, facts };
  if (status === 401) {
    const advice =
      "Tokens may be presented in another way (ownerFetch's present), or be known there only after a while.";
    return { status: 'failed', text: 'a fresh token is refused as Bearer (401)', advice, facts };
  }
  return { status: 'warning', text: `nothing can be told: ${status} with the token, ${without} without`, facts };
}

/** What became of the first token when a second one was obtained. */
export function verdictOnRevocation(seen: { same: boolean; first: number; second: number }): Found {
  const { same, first, second } = seen;
  const facts = { sameToken: same, ...(!same && { statusOfFirst: first, statusOfSecond: second }) };
  if (same) return { status: 'ok', text: 'the same token came again, so that none ends another', facts };
  if (isSuccess(first)) {
    const text = 'a second token leaves the first one good, as far as can be seen at once';
    return { status: 'ok', text, facts: { ...facts, revokesPrevious: false } };
  }
  if (first === 401 && isSuccess(second)) {
    const advice =
      'Whoever asks for the same owner elsewhere ends your token: share tokens between replicas (docs/fleet.md).';
    const text = 'a second token ends the first one';
    return { status: 'warning', text, advice, facts: { ...facts, revokesPrevious: true } };
  }
  return {
    status: 'warning',
    text: `nothing can be told: ${first} for the first token, ${second} for the second`,
    facts,
  };
}
