import type { IncomingMessage } from 'node:http';
import type { LedgerEntry, LedgerFacts, Outcome } from '../state/ledger/ledger-entry.ts';
import type { AccessKey } from '../state/world/directory.ts';
import type { IssuedToken } from '../state/world/tokens.ts';
import { tokenStateIn, type World } from '../state/world/world.ts';
import { refusalAnswer, tokenAnswer } from './answers.ts';
import { bearerOf, EXPECTED_OWNER, echo } from './echo.ts';
import type { Answer, BodyResult } from './http-io.ts';
import { refusalOf } from './token-issuer.ts';
import { badRequest, type Refusal, readTokenRequest, type TokenRequestFields } from './token-request.ts';

/**
 * A request to the token plane that has been read but not answered. The owner is known first, because a fault may
 * target one; `respond` runs only if no fault prevents it.
 */
export interface Exchange {
  readonly facts: LedgerFacts;
  /** Carries the request out and returns the correct answer. A token issued here exists from then on. */
  readonly respond: Respond;
  /** Records that the presented token was answered with 401, so its holder drops it. */
  readonly tokenRefused?: () => void;
}

/** @param wrongOwner issue a token of another owner, if there is one. */
export type Respond = (how?: { wrongOwner?: boolean }) => Response;

export interface Response {
  readonly answer: Answer;
  readonly outcome: Outcome;
  readonly facts: Partial<LedgerEntry>;
  /** The token in the answer. */
  readonly issued?: IssuedToken;
}

/** Bounds the memory of one request. Four short strings need far less. */
export const MAX_BODY_BYTES = 16_384;

export const TOKEN_PATH = '/auth/v1/token';
const ECHO_PATH = '/echo';

/** Determines the kind of a request and its owner. */
export function exchangeOf(world: World, req: IncomingMessage, body: BodyResult): Exchange {
  const path = req.url?.split('?', 1)[0];
  const method = methodOf(req);
  if (path === TOKEN_PATH) return tokenExchange(world, req, method, body);
  if (path === ECHO_PATH) return echoExchange(world, req, method);
  const refusal = {
    status: 404,
    error: 'not_found',
    description: `this server has only ${TOKEN_PATH} and ${ECHO_PATH}`,
  };
  return {
    facts: { kind: 'other', method },
    respond: () => ({ answer: refusalAnswer(world.profile, refusal), outcome: 'not_found', facts: { status: 404 } }),
  };
}

function tokenExchange(world: World, req: IncomingMessage, method: string, body: BodyResult): Exchange {
  const [fields, problem] = readOrRefuse(world, req, body);
  const sentKey = fields.appliance_owner_scope;
  const accessKey = sentKey === undefined ? undefined : world.directory.findAccessKey(sentKey);
  const facts: LedgerFacts = {
    kind: 'token',
    method,
    ...(accessKey && { owner: accessKey.ownerId }),
    wasted: accessKey !== undefined && hasGoodToken(world, accessKey),
    ...(sentKey !== undefined && { accessKey: accessKey?.fingerprint ?? world.secrets.fingerprint(sentKey) }),
  };
  return { facts, respond: (how) => respondToken(world, fields, accessKey, problem, how?.wrongOwner) };
}

function readOrRefuse(world: World, req: IncomingMessage, body: BodyResult): [TokenRequestFields, Refusal?] {
  if (req.method !== 'POST') {
    const description = 'a token is requested with POST';
    return [{}, { status: 405, error: 'invalid_request', description, headers: { allow: 'POST' } }];
  }
  if ('text' in body) return readTokenRequest(req.headers, body.text, world.profile.acceptForms);
  return [
    {},
    { ...badRequest(`the body is over ${MAX_BODY_BYTES} bytes`), status: 413, headers: { connection: 'close' } },
  ];
}

function respondToken(
  world: World,
  fields: TokenRequestFields,
  accessKey: AccessKey | undefined,
  problem?: Refusal,
  wrongOwner = false,
): Response {
  const nowMs = world.clock.now();
  const refusal = problem ?? refusalOf(world, fields, accessKey);
  if (refusal || !accessKey) return refuse(world, refusal ?? badRequest('refused'), fields);
  const wasted = hasGoodToken(world, accessKey);
  const other = wrongOwner ? anotherOwnersKey(world, accessKey) : undefined;
  const { value, token } = issue(world, other ?? accessKey, nowMs, other !== undefined);
  const { answer, usable } = tokenAnswer(world.profile, value, world.answers++);
  if (!usable) token.delivered = false;
  const facts = { status: answer.status, token: token.fingerprint, tokenExpiresAtMs: token.expiresAtMs, wasted };
  const outcome = !usable ? 'bad_answer' : other ? 'wrong_owner' : 'issued';
  return { answer, outcome, facts, issued: token };
}

const hasGoodToken = ({ tokens, clock }: World, accessKey: AccessKey): boolean =>
  tokens.goodTokenOf(accessKey, clock.now()) !== undefined;

function issue(
  world: World,
  accessKey: AccessKey,
  nowMs: number,
  stray: boolean,
): { value: string; token: IssuedToken } {
  const { lifetimeSeconds, tokenFormat, revokePrevious, replicationLagMs } = world.profile;
  const lifetimeMs = lifetimeSeconds * 1000;
  const options = { format: tokenFormat, lifetimeMs, revokePrevious, replicationLagMs, stray };
  return world.tokens.issue(accessKey, nowMs, { ...options, stillborn: accessKey.revoked });
}

/** An unrevoked key of another owner. */
function anotherOwnersKey(world: World, accessKey: AccessKey): AccessKey | undefined {
  for (const other of world.directory.accessKeys.values()) {
    if (other.ownerId !== accessKey.ownerId && !other.revoked) return other;
  }
  return undefined;
}

function refuse(world: World, refusal: Refusal, sent: TokenRequestFields): Response {
  const { status, error, description, field } = refusal;
  const facts = { status, error, description, ...(field && { field }) };
  return { answer: refusalAnswer(world.profile, refusal, sent), outcome: 'refused', facts };
}

function echoExchange(world: World, req: IncomingMessage, method: string): Exchange {
  const presented = bearerOf(req.headers.authorization);
  const token = presented === undefined ? undefined : world.tokens.find(presented);
  const expected = req.headers[EXPECTED_OWNER];
  const facts: LedgerFacts = {
    kind: 'echo',
    method,
    ...(token && { owner: token.accessKey.ownerId, token: token.fingerprint }),
    ...(token && { tokenExpiresAtMs: token.expiresAtMs }),
    ...(presented !== undefined && !token && { token: world.secrets.fingerprint(presented) }),
  };
  const tokenRefused = () => {
    if (token) token.refused = true;
  };
  const respond = () => {
    const state = presented === undefined ? 'absent' : tokenStateIn(world, token);
    const result = echo(state, token?.accessKey.ownerId, typeof expected === 'string' ? expected : undefined);
    if (result.outcome === 'rejected') tokenRefused();
    return result;
  };
  return { facts, respond, tokenRefused };
}

/** Safe to record: Node's parser accepts registered methods only. */
const methodOf = (req: IncomingMessage): string => req.method ?? 'GET';
