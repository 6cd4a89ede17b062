import { OwnerTokenError, TokenEndpoint } from '../../index.ts';
import { UsageError } from '../command.ts';
import { TimedOut, withDeadline } from '../deadline.ts';
import { isNotTls, NOT_TLS } from '../diagnosis.ts';
import type { Credentials } from '../environment.ts';
import type { Network } from '../network.ts';
import { TokenService } from '../token-service.ts';
import { type ParsedAnswer, parseAnswer } from './answer.ts';
import { findingsOf, optionsFor, sandboxLike } from './checks.ts';
import { checkName, checkTls, clockDifference } from './network.ts';
import { judgeProbe, judgeRevocation, probe } from './probe.ts';
import type { CheckName, Finding, Report, Result } from './report.ts';

interface Settings {
  /** Deadline of each step. */
  readonly timeoutMs: number;
  readonly allowInsecureHttp: boolean;
}

/** How to try the token on a resource. */
export interface ProbePlan {
  readonly url: URL;
  /** The owner that the token must belong to, as the service names it. */
  readonly expectedOwner: string | undefined;
  /** Whether to obtain a second token, to see whether it revokes the first. */
  readonly revocation: boolean;
}

/** The step's own deadline is slightly later than the endpoint's, whose error says more. */
const STEP_GRACE_MS = 50;

/** The examination of one service. Each step has its own deadline; a step whose precondition failed is skipped. */
export class Examination {
  readonly #signal: AbortSignal;
  readonly #settings: Settings;
  readonly #credentials: Credentials;
  readonly #network: Network;
  readonly #service: TokenService;
  readonly #findings: Finding[] = [];
  #answer: ParsedAnswer | undefined;

  constructor(credentials: Credentials, network: Network, signal: AbortSignal, settings: Settings) {
    this.#credentials = credentials;
    this.#network = network;
    this.#signal = signal;
    this.#settings = settings;
    this.#service = new TokenService(credentials, network, { ...settings, parseResponse: (body) => this.#parse(body) });
  }

  close(): void {
    this.#service.close();
  }

  async run(plan: ProbePlan | undefined): Promise<Report> {
    const { baseUrl } = this.#credentials;
    await this.#step('name', [], () => checkName(baseUrl, this.#network));
    await this.#step('tls', ['name'], (signal) => checkTls(baseUrl, signal, this.#network));
    await this.#step('token', ['name', 'tls'], (signal) => this.#obtain(signal));
    this.#findings.push({ check: 'clock', ...clockDifference(this.#service.lastAnswer) });
    const answer = this.#answer;
    const nowMs = Date.now();
    if (answer) this.#findings.push(...findingsOf(answer, nowMs));
    if (plan) await this.#probe(plan);
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
    if (![this.#credentials.baseUrl.origin, ...origins].includes(url.origin)) {
      throw new UsageError('--probe-url: not on the origin of OTR_BASE_URL; allow its origin with --allow-origin');
    }
    // TokenEndpoint's constructor rejects plain http to another machine; the same rule holds for the probe.
    const { allowInsecureHttp } = this.#settings;
    new TokenEndpoint({ baseUrl: url.origin, clientId: 'none', clientSecret: 'none', allowInsecureHttp });
    return url;
  }

  async #probe({ url, expectedOwner, revocation }: ProbePlan): Promise<void> {
    await this.#step('probe', ['token'], async (signal) => {
      const without = await probe(url, { network: this.#network }, signal);
      return judgeProbe(
        without,
        await probe(url, { token: this.#answer?.token, expectedOwner, network: this.#network }, signal),
        expectedOwner,
      );
    });
    if (!revocation) return;
    const isConclusive = this.#findings.some(({ check, status }) => check === 'probe' && status === 'ok');
    if (!isConclusive) {
      this.#findings.push({ check: 'revocation', status: 'skipped', text: 'skipped: inconclusive probe' });
      return;
    }
    await this.#step('revocation', [], async (signal) => {
      const first = this.#answer?.token;
      const second = await this.#requestToken(signal);
      if (first === second) return judgeRevocation('same token');
      const ofFirst = await probe(url, { token: first, network: this.#network }, signal);
      return judgeRevocation({
        first: ofFirst,
        second: await probe(url, { token: second, network: this.#network }, signal),
      });
    });
  }

  async #obtain(signal: AbortSignal): Promise<Result> {
    const startedMs = performance.now();
    await this.#requestToken(signal);
    const tookMs = Math.round(performance.now() - startedMs);
    return { status: 'ok', text: `obtained in ${tookMs} ms`, facts: { tookMs } };
  }

  async #requestToken(signal: AbortSignal): Promise<string> {
    return (await this.#service.endpoint.requestToken(this.#credentials.accessKey, { signal })).token;
  }

  #parse(body: unknown): { token: string; tokenType?: string } {
    const { clientId, clientSecret, accessKey } = this.#credentials;
    const answer = parseAnswer(body, { sent: [clientId, clientSecret, accessKey], nowMs: Date.now() });
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
      const isEndpoints = error instanceof OwnerTokenError;
      this.#findings.push({ check, ...(isEndpoints ? await this.#refusal(error) : failureOf(error)) });
    }
  }

  async #refusal(error: OwnerTokenError): Promise<Result> {
    const { code, failureScope, status, oauthError, retryAfterMs, cause } = error;
    const facts = { code, failureScope, status, oauthError, retryAfterMs, cause: cause?.code };
    const details = [code, failureScope && `pauses the ${failureScope}`, cause?.code].filter(Boolean).join(', ');
    const diagnosis = await this.#service.diagnose(error, this.#signal);
    const hint =
      ' Without an error code of RFC 6749 the library cannot tell whether this refusal concerns the owner or the client: see classifyFailure.';
    const advice = this.#service.refusedWithoutCode ? `${diagnosis}${hint}` : diagnosis;
    return { status: 'failed', text: `${error.message} (${details})`, advice, facts };
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

/** Describes a failure outside the token endpoint by its code. Never quotes the message of a foreign error. */
function failureOf(error: unknown): Result {
  if (error instanceof TimedOut) return { status: 'failed', text: error.message, facts: { code: error.code } };
  const cause = new OwnerTokenError('source_failed', 'scrubbed', { cause: error }).cause;
  const code = cause?.code ?? cause?.cause?.code ?? cause?.name ?? 'Error';
  const advice = isNotTls(code) ? NOT_TLS : ADVICE_BY_CODE[code];
  return { status: 'failed', text: `failed: ${code}`, ...(advice && { advice }), facts: { code } };
}
