/** Tries a token on a resource, on allowed origins only: redirects are not followed. */

import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { agentFor, type Network } from '../network.ts';
import type { ProbePlan } from './probe-plan.ts';
import type { Result } from './report.ts';

/** What a resource answered. */
export interface ProbeAnswer {
  readonly status: number;
  /** The owner of the token, if the answer names one as `owner`. An identifier of the service's; never printed. */
  readonly owner?: string;
  /** The resource says that the token is not one of the expected owner: `wrongOwner`. */
  readonly wrongOwner?: true;
}

/** A resource's answer is read up to this size. */
const MAX_BODY_BYTES = 65_536;

/** Tries a token on a resource: one GET without it, and one with it. */
export async function tryToken(
  { url, expectedOwner }: ProbePlan,
  { token, network }: Pick<ProbeOptions, 'token' | 'network'>,
  signal: AbortSignal,
): Promise<Result> {
  const without = await probe(url, { network }, signal);
  return judgeProbe(without, await probe(url, { token, expectedOwner, network }, signal), expectedOwner);
}

/** The answer to a GET, with this bearer token or with none. `expectedOwner` goes into the header `x-expected-owner`. */
export async function probe(
  url: URL,
  { token, expectedOwner, network }: ProbeOptions,
  signal: AbortSignal,
): Promise<ProbeAnswer> {
  const headers: Record<string, string> = {
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(expectedOwner !== undefined && { 'x-expected-owner': expectedOwner }),
  };
  const agent = agentFor(url, network);
  try {
    const request = (url.protocol === 'https:' ? https : http).get(url, { headers, agent, signal });
    const [answer] = (await once(request, 'response', { signal })) as [http.IncomingMessage];
    const { owner, wrongOwner } = (await jsonOf(answer)) as Record<'owner' | 'wrongOwner', unknown>;
    return {
      status: answer.statusCode ?? 0,
      ...(typeof owner === 'string' && { owner }),
      ...(wrongOwner === true && { wrongOwner }),
    };
  } finally {
    agent.destroy();
  }
}

interface ProbeOptions {
  readonly token?: string | undefined;
  readonly expectedOwner?: string | undefined;
  readonly network: Network;
}

/** The body as an object; empty if it is too large, or not JSON. */
async function jsonOf(answer: AsyncIterable<Uint8Array>): Promise<object> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) return {};
    chunks.push(chunk);
  }
  try {
    return Object(JSON.parse(Buffer.concat(chunks).toString('utf8')));
  } catch {
    return {};
  }
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

const WRONG_OWNER =
  'the service issued a token for a different owner than that of the access key. Do not use it, and tell the operator of the service.';

/** Compares the answers with a fresh token and without one. `ok` means that the resource distinguishes them. */
function judgeProbe(without: ProbeAnswer, answer: ProbeAnswer, expectedOwner: string | undefined): Result {
  const { status } = answer;
  const isOwner = expectedOwner !== undefined && answer.owner === expectedOwner;
  const facts = { statusWithout: without.status, status, ...(isOwner && { isOwner }) };
  if (
    answer.wrongOwner ||
    (expectedOwner !== undefined && answer.owner !== undefined && answer.owner !== expectedOwner)
  ) {
    const text = 'the resource says that the token belongs to another owner';
    const advice = `If --expect-owner is right, ${WRONG_OWNER}`;
    return { status: 'failed', text, advice, facts: { ...facts, wrongOwner: true } };
  }
  if (isSuccess(status) && isSuccess(without.status)) {
    return {
      status: 'warning',
      text: `inconclusive: the resource responds with ${without.status} even without a token`,
      facts,
    };
  }
  if (isSuccess(status)) {
    const text = `the resource accepts the token as Bearer (${status}; ${without.status} without it)`;
    return { status: 'ok', text, facts };
  }
  if (status === 401) {
    const advice =
      'The resource may expect the token elsewhere (ownerFetch option `present`), or accept new tokens only after a delay.';
    return { status: 'failed', text: 'the resource refuses a fresh token as Bearer (401)', advice, facts };
  }
  return { status: 'warning', text: `inconclusive: ${status} with the token, ${without.status} without`, facts };
}

/** Whether a second token revoked the first, from the answers of the resource to each. */
export function judgeRevocation(answers: 'same token' | { first: ProbeAnswer; second: ProbeAnswer }): Result {
  if (answers === 'same token') {
    const text = 'the service issued the same token again, so neither revokes the other';
    return { status: 'ok', text, facts: { sameToken: true } };
  }
  const { first, second } = answers;
  const facts = { sameToken: false, statusOfFirst: first.status, statusOfSecond: second.status };
  if (first.owner !== undefined && second.owner !== undefined && first.owner !== second.owner) {
    const text = 'the resource says that the two tokens belong to different owners';
    return {
      status: 'failed',
      text,
      advice: `If both responses are right, ${WRONG_OWNER}`,
      facts: { ...facts, wrongOwner: true },
    };
  }
  if (isSuccess(first.status)) {
    const text = 'the first token is still accepted right after the second was issued';
    return { status: 'ok', text, facts: { ...facts, revokesPrevious: false } };
  }
  if (first.status === 401 && isSuccess(second.status)) {
    const advice =
      'Another process that requests a token for this owner revokes yours: share tokens between replicas (docs/fleet.md).';
    const text = 'a second token revokes the first';
    return { status: 'warning', text, advice, facts: { ...facts, revokesPrevious: true } };
  }
  return {
    status: 'warning',
    text: `inconclusive: ${first.status} with the first token, ${second.status} with the second`,
    facts,
  };
}
