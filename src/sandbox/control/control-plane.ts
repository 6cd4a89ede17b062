import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { PORTAL_ASSETS } from '../portal/assets.ts';
import { readBody } from '../service/http-io.ts';
import { PortGate } from '../service/port-gate.ts';
import { isCallerError, NotFound } from '../state/world/problems.ts';
import { type AccessProblem, type AccessRules, isSame, problem, refuseAccess, TOKEN_COOKIE } from './access.ts';
import type { ControlContext } from './context.ts';
import type { Feed } from './feed.ts';
import { type Match, matchOperation } from './match.ts';
import { runOperation, Status, Stream } from './operation.ts';
import type { ControlError } from './shapes.ts';

/** Far larger than any rule or profile. */
const MAX_BODY_BYTES = 1_000_000;

/** Sent with every answer: the page loads nothing from elsewhere, runs nothing inline, and cannot be framed. */
const SECURITY_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'x-frame-options': 'DENY',
};

/** The control plane: admin REST API, event stream and portal, on a separate port that no fault affects. */
export class ControlPlane {
  readonly #context: ControlContext;
  readonly #rules: AccessRules;
  readonly #feed: Feed;
  readonly #gate: PortGate;

  constructor(context: ControlContext, feed: Feed, rules: AccessRules, unref: boolean) {
    this.#context = context;
    this.#rules = rules;
    this.#feed = feed;
    const server: Server = createServer({ keepAliveTimeout: 60_000 }, (req, res) => this.#receive(req, res));
    this.#gate = new PortGate(server, unref);
  }

  listen(port: number, host: string): Promise<number> {
    return this.#gate.listen(port, host);
  }

  close(): Promise<void> {
    return this.#gate.shut();
  }

  #receive(req: IncomingMessage, res: ServerResponse): void {
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) res.setHeader(name, value);
    const url = urlOf(req);
    const refused = url ? this.#refuse(req, res, url) : problem(400, 'bad_request', 'the request target is not a path');
    if (refused) sendProblem(res, refused);
    else if (url && !res.writableEnded) this.#route(req, res, url);
  }

  #refuse(req: IncomingMessage, res: ServerResponse, url: URL): AccessProblem | undefined {
    const given = url.searchParams.get('token');
    if (this.#rules.token === undefined || given === null || req.method !== 'GET' || url.pathname !== '/') {
      return refuseAccess(req, url.pathname, this.#rules);
    }
    // The page was opened with the token in its address: moves it into a cookie, out of the address and the history.
    if (!isSame(given, this.#rules.token)) return problem(401, 'unauthorized', 'wrong control token');
    const cookie = `${TOKEN_COOKIE}=${this.#rules.token}; HttpOnly; SameSite=Strict; Path=/`;
    res.writeHead(303, { location: '/', 'set-cookie': cookie }).end();
    return undefined;
  }

  #route(req: IncomingMessage, res: ServerResponse, url: URL): void {
    const { match, methods } = matchOperation(req.method ?? '', url.pathname);
    if (match) this.#run(match, req, res, url);
    else if (methods.length === 0) this.#sendAsset(req, res, url.pathname);
    else sendProblem(res, wrongMethod(methods), { allow: methods.join(', ') });
  }

  #run(match: Match, req: IncomingMessage, res: ServerResponse, url: URL): void {
    readBody(req, MAX_BODY_BYTES, (body) => {
      if ('text' in body) void this.#answer(match, body.text, res, url);
      else sendProblem(res, problem(413, 'too_large', 'the body is too large'), { connection: 'close' });
    });
  }

  /** Never rejects: answers with a problem if anything throws. */
  async #answer({ operation, path }: Match, body: string, res: ServerResponse, url: URL): Promise<void> {
    try {
      const result = await runOperation(operation, this.#context, { path, query: url.searchParams, body });
      if (result instanceof Stream) this.#attach(res, result);
      else if (result instanceof Status) sendJson(res, result.status, result.body);
      else sendJson(res, 200, result);
    } catch (error) {
      sendProblem(res, problemOf(error));
    }
  }

  #attach(res: ServerResponse, stream: Stream): void {
    if (!this.#feed.attach(res, stream)) sendProblem(res, problem(503, 'too_many', 'too many pages are open'));
  }

  #sendAsset(req: IncomingMessage, res: ServerResponse, path: string): void {
    const asset = PORTAL_ASSETS.get(path);
    if (!asset) {
      sendProblem(res, problem(404, 'not_found', 'no such path'));
    } else if (req.method !== 'GET' && req.method !== 'HEAD') {
      sendProblem(res, wrongMethod(['GET']), { allow: 'GET' });
    } else {
      res.writeHead(200, { 'content-type': asset.type, 'cache-control': 'no-cache' });
      res.end(req.method === 'HEAD' ? undefined : asset.body);
    }
  }
}

function urlOf(req: IncomingMessage): URL | undefined {
  try {
    return req.url?.startsWith('/') ? new URL(`http://control${req.url}`) : undefined;
  } catch {
    return undefined;
  }
}

/** Passes on the message of the caller's mistakes only, because any other message may quote a secret. */
function problemOf(error: unknown): AccessProblem {
  if (error instanceof NotFound) return problem(404, 'not_found', error.message);
  if (isCallerError(error)) return problem(400, 'bad_request', error.message);
  return problem(500, 'internal_error', 'unexpected error in the sandbox');
}

const wrongMethod = (methods: string[]): AccessProblem =>
  problem(405, 'method_not_allowed', `the methods of this path are ${methods.join(', ')}`);

function sendJson(res: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  res.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers });
  res.end(JSON.stringify(body));
}

function sendProblem(res: ServerResponse, refusal: AccessProblem, headers?: Record<string, string>): void {
  const { status, error, message } = refusal;
  sendJson(res, status, { error, message } satisfies ControlError, headers);
}
