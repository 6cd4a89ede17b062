import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { Agent, ClientRequest, IncomingMessage } from 'node:http';
import { type EndpointFailure, type OwnerTokenError, TokenEndpoint, type TokenEndpointOptions } from '../index.ts';
import { diagnose } from './diagnosis.ts';
import type { Credentials } from './environment.ts';
import { agentFor, type Network } from './network.ts';
import { makeShape, type RequestShape } from './request-shape.ts';

/** Facts about an answer that the endpoint does not return. */
export interface ObservedAnswer {
  readonly sentMs: number;
  readonly receivedMs: number;
  /** Its `Date` and `Location` headers. */
  readonly date: string | undefined;
  readonly location?: string | undefined;
}

/** The library's token endpoint, observed, so that a command can explain what happened. */
export class TokenService {
  readonly endpoint: TokenEndpoint;
  readonly #credentials: Credentials;
  readonly #shape: RequestShape;
  readonly #hasCertificate: boolean;
  readonly #agent: Agent;
  readonly #answers: AnswerObserver;
  #failure: EndpointFailure | undefined;

  constructor(
    credentials: Credentials,
    network: Network,
    shape: RequestShape,
    options: Pick<TokenEndpointOptions, 'timeoutMs' | 'allowInsecureHttp' | 'parseResponse'>,
  ) {
    const { baseUrl, clientId, clientSecret } = credentials;
    this.#credentials = credentials;
    this.#shape = shape;
    this.#hasCertificate = network.tls.cert !== undefined;
    this.#agent = agentFor(baseUrl, network);
    this.#answers = new AnswerObserver(this.#agent);
    this.endpoint = new TokenEndpoint({
      baseUrl,
      clientId,
      clientSecret,
      agent: this.#agent,
      tokenRequest: makeShape({ ...shape, path: credentials.tokenPath }),
      ...options,
      classifyFailure: (failure) => {
        this.#failure = failure;
        return undefined;
      },
    });
  }

  get lastAnswer(): ObservedAnswer | undefined {
    return this.#answers.last;
  }

  /** Whether the last failure was a refusal without an error code, which leaves open whether it concerns owner or client. */
  get refusedWithoutCode(): boolean {
    const { kind, status = 0, oauthError } = this.#failure ?? {};
    return kind === 'status' && status >= 400 && status < 500 && status !== 429 && oauthError === undefined;
  }

  /** The likely cause of a failed request, and the next step. */
  diagnose(error: OwnerTokenError, signal: AbortSignal): Promise<string> {
    const { last, isConnected } = this.#answers;
    const found = { location: last?.location, isConnected, hasCertificate: this.#hasCertificate };
    return diagnose(
      { error, failure: this.#failure, credentials: this.#credentials, shape: this.#shape, ...found },
      signal,
    );
  }

  close(): void {
    this.#answers.stop();
    this.#agent.destroy();
  }
}

/** Observes the answers to an agent's requests through the diagnostics channels of Node's HTTP client. */
class AnswerObserver {
  last: ObservedAnswer | undefined;
  /** Whether the last request had a connection to the service, or to its proxy. */
  isConnected = false;
  readonly #agent: Agent;
  readonly #sentMs = new WeakMap<ClientRequest, number>();

  constructor(agent: Agent) {
    this.#agent = agent;
    subscribe('http.client.request.start', this.#onSent);
    subscribe('http.client.response.finish', this.#onAnswer);
  }

  stop(): void {
    unsubscribe('http.client.request.start', this.#onSent);
    unsubscribe('http.client.response.finish', this.#onAnswer);
  }

  readonly #onSent = (message: unknown): void => {
    const { request } = message as { request: ClientRequest & { agent?: unknown } };
    if (request.agent !== this.#agent) return;
    this.#sentMs.set(request, Date.now());
    const { socket } = request;
    this.isConnected = socket?.connecting === false;
    socket?.once('connect', () => {
      this.isConnected = true;
    });
  };

  readonly #onAnswer = (message: unknown): void => {
    const { request, response } = message as { request: ClientRequest; response: IncomingMessage };
    const sentMs = this.#sentMs.get(request);
    if (sentMs === undefined) return;
    const { date, location } = response.headers;
    this.last = { sentMs, receivedMs: Date.now(), date, location };
  };
}
