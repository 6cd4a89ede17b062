import http from 'node:http';
import https from 'node:https';
import { type EndpointFailure, OwnerTokenError, TokenEndpoint } from '../../index.ts';
import { adviceFor } from '../advice.ts';
import { UsageError } from '../command.ts';
import { TimedOut, withDeadline } from '../deadline.ts';
import type { Credentials } from '../environment.ts';
import { type ParsedAnswer, parseAnswer } from './answer.ts';
import { findingsOf, optionsFor, sandboxLike } from './checks.ts';
import { checkName, checkTls, clockDifference, watchAnswers } from './network.ts';
import { judgeProbe, judgeRevocation, statusOf } from './probe.ts';
import type { CheckName, Finding, Report, Result } from './report.ts';

interface Settings {
  /** Deadline of each step. */
  readonly timeoutMs: number;
  readonly allowInsecureHttp: boolean;
}

/** The step's own deadline is slightly later than the endpoint's, whose error says more. */
const STEP_GRACE_MS = 50;

/** The examination of one service. Each step has its own deadline; a step whose precondition failed is skipped. */
export class Examination {
  readonly #signal: AbortSignal;
  readonly #settings: Settings;
  readonly #baseUrl: URL;
  readonly #accessKey: string;
  readonly #sent: readonly string[];
  readonly #agent: http.Agent;
  readonly #answers: ReturnType<typeof watchAnswers>;
  readonly #endpoint: TokenEndpoint;
  readonly #findings: Finding[] = [];
  #answer: ParsedAnswer | undefined;
  #failure: EndpointFailure | undefined;

  constructor(credentials: Credentials, signal: AbortSignal, settings: Settings) {
    const { baseUrl, clientId, clientSecret, accessKey } = credentials;
    this.#signal = signal;
    this.#settings = settings;
    this.#accessKey = accessKey;
    this.#sent = [clientId, clientSecret, accessKey];
    this.#agent = /^https:/i.test(baseUrl) ? new https.Agent() : new http.Agent();
    this.#endpoint = new TokenEndpoint({
      ...{ baseUrl, clientId, clientSecret, ...settings, agent: this.#agent },
      parseResponse: (body) => this.#parse(body),
      classifyFailure: (failure) => {
        this.#failure = failure;
        return undefined;
      },
    });
    this.#baseUrl = new URL(baseUrl);
    this.#answers = watchAnswers(this.#agent);
  }

  close(): void {
    this.#answers.stop();
    this.#agent.destroy();
  }

  async run(probeUrl: URL | undefined, probesRevocation: boolean): Promise<Report> {
    await this.#step('name', [], () => checkName(this.#baseUrl));
    await this.#step('tls', ['name'], (signal) => checkTls(this.#baseUrl, signal));
    await this.#step('token', ['name', 'tls'], (signal) => this.#obtain(signal));
    this.#findings.push({ check: 'clock', ...clockDifference(this.#answers.last()) });
    const answer = this.#answer;
    const nowMs = Date.now();
    if (answer) this.#findings.push(...findingsOf(answer, nowMs));
    if (probeUrl) await this.#probe(probeUrl, probesRevocation);
    const revokes = this.#factOf('revocation', 'revokesPrevious') as boolean | undefined;
    return {
      ok: !this.#findings.some(({ status }) => status === 'failed'),
      findings: this.#findings,
      options: answer ? optionsFor(answer, revokes, nowMs) : [],
      differences: [],
      ...(answer && sandboxLike(answer, revokes, nowMs)),
    };
  }

  /** Parses the URL of the probe and checks that the token may be sent there. Errors never quote it. */
  probeUrlOf(given: string, origins: readonly string[]): URL {
    const url = URL.canParse(given) ? new URL(given) : undefined;
    if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password) {
      throw new UsageError('--probe-url: expected an http(s) URL without credentials');
    }
    if (![this.#baseUrl.origin, ...origins].includes(url.origin)) {
      throw new UsageError('--probe-url: not on the origin of OTR_BASE_URL; allow its origin with --allow-origin');
    }
    // TokenEndpoint's constructor rejects plain http to another machine; the same rule holds for the probe.
    const { allowInsecureHttp } = this.#settings;
    new TokenEndpoint({ baseUrl: url.origin, clientId: 'none', clientSecret: 'none', allowInsecureHttp });
    return url;
  }

  async #probe(url: URL, probesRevocation: boolean): Promise<void> {
    await this.#step('probe', ['token'], async (signal) => {
      const without = await statusOf(url, undefined, signal);
      return judgeProbe(without, await statusOf(url, this.#answer?.token, signal));
    });
    if (!probesRevocation) return;
    const isConclusive = this.#findings.some(({ check, status }) => check === 'probe' && status === 'ok');
    if (!isConclusive) {
      this.#findings.push({ check: 'revocation', status: 'skipped', text: 'skipped: inconclusive probe' });
      return;
    }
    await this.#step('revocation', [], async (signal) => {
      const first = this.#answer?.token;
      const second = (await this.#endpoint.requestToken(this.#accessKey, { signal })).token;
      if (first === second) return judgeRevocation({ same: true, first: 0, second: 0 });
      const [ofFirst, ofSecond] = [await statusOf(url, first, signal), await statusOf(url, second, signal)];
      return judgeRevocation({ same: false, first: ofFirst, second: ofSecond });
    });
  }

  async #obtain(signal: AbortSignal): Promise<Result> {
    const startedMs = performance.now();
    await this.#endpoint.requestToken(this.#accessKey, { signal });
    const tookMs = Math.round(performance.now() - startedMs);
    return { status: 'ok', text: `obtained in ${tookMs} ms`, facts: { tookMs } };
  }

  #parse(body: unknown): { token: string; tokenType?: string } {
    const answer = parseAnswer(body, { sent: this.#sent, nowMs: Date.now() });
    if (!answer) throw new OwnerTokenError('invalid_response', 'the answer holds no token in any known field');
    this.#answer ??= answer;
    return { token: answer.token, ...(answer.tokenType && { tokenType: answer.tokenType.value }) };
  }

  /** Runs one check within its deadline. Skips it if a check that it needs failed. */
  async #step(
    check: CheckName,
    needs: readonly CheckName[],
    run: (signal: AbortSignal) => Promise<Result>,
  ): Promise<void> {
    const missing = needs.find((need) => !this.#findings.some((found) => found.check === need && isUsable(found)));
    if (missing) {
      this.#findings.push({ check, status: 'skipped', text: `skipped: no ${missing}` });
      return;
    }
    try {
      const result = await withDeadline(this.#settings.timeoutMs + STEP_GRACE_MS, this.#signal, run);
      this.#findings.push({ check, ...result });
    } catch (error) {
      // Ctrl-C ends the examination, not just this step.
      this.#signal.throwIfAborted();
      if (check === 'token') this.#answer = undefined;
      this.#findings.push({ check, ...failureOf(error, this.#failure) });
    }
  }

  #factOf(name: CheckName, fact: string): unknown {
    return this.#findings.find(({ check }) => check === name)?.facts?.[fact];
  }
}

const isUsable = ({ status }: Finding): boolean => status === 'ok' || status === 'warning';

const ADVICE_BY_CODE: Readonly<Record<string, string>> = {
  ENOTFOUND: 'The name does not resolve. Is it spelled correctly, and can this machine reach its name server?',
  EAI_AGAIN: 'The name server does not answer. Is this machine connected?',
  ECONNREFUSED: 'Nothing listens on this port. Is it the right one?',
  ECONNRESET: 'The connection was reset. Does a firewall or proxy block it?',
};

/** Describes a failure by its code, its scope and the next step. Never quotes the message of a foreign error. */
function failureOf(error: unknown, failure: EndpointFailure | undefined): Result {
  if (error instanceof TimedOut) return { status: 'failed', text: error.message, facts: { code: error.code } };
  if (!(error instanceof OwnerTokenError)) {
    const cause = new OwnerTokenError('source_failed', 'scrubbed', { cause: error }).cause;
    const code = cause?.code ?? cause?.cause?.code ?? cause?.name ?? 'Error';
    const advice = ADVICE_BY_CODE[code];
    return { status: 'failed', text: `failed: ${code}`, ...(advice && { advice }), facts: { code } };
  }
  const { code, failureScope, status, oauthError, cause } = error;
  const facts = { code, failureScope, status, oauthError, cause: cause?.code };
  const details = [code, failureScope && `pauses the ${failureScope}`, cause?.code].filter(Boolean).join(', ');
  return { status: 'failed', text: `${error.message} (${details})`, advice: adviceOn(error, failure), facts };
}

function adviceOn(error: OwnerTokenError, failure: EndpointFailure | undefined): string {
  const isUnnamed = failure?.kind === 'status' && failure.oauthError === undefined && error.status !== 429;
  const isRefusal = error.status !== undefined && error.status >= 400 && error.status < 500;
  if (!isUnnamed || !isRefusal) return adviceFor(error);
  return `${adviceFor(error)} The refusal has no RFC 6749 error code; classifyFailure can set its scope.`;
}
