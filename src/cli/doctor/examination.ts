import { formRequest, OwnerTokenError, type TokenRequestShape } from '../../index.ts';
import { withDeadline } from '../deadline.ts';
import type { Credentials } from '../environment.ts';
import type { Network } from '../network.ts';
import { TokenService } from '../token-service.ts';
import { type ParsedAnswer, parseAnswer } from './answer.ts';
import { checksOn, optionsFor, sandboxLike } from './checks.ts';
import { foreignFailure } from './failure.ts';
import { checkName, checkTls, clockDifference } from './network.ts';
import { judgeRevocation, probe, tryToken } from './probe.ts';
import type { ProbePlan } from './probe-plan.ts';
import type { CheckName, CheckResult, Report, Result } from './report.ts';

interface Settings {
  /** Deadline of each step. */
  readonly timeoutMs: number;
  readonly allowInsecureHttp: boolean;
}

/** The step's own deadline is later than the endpoint's, whose error says more, also on a busy machine. */
const STEP_GRACE_MS = 500;

/** The examination of one service. Each step has its own deadline; a step whose precondition failed is skipped. */
export class Examination {
  readonly #signal: AbortSignal;
  readonly #settings: Settings;
  readonly #credentials: Credentials;
  readonly #network: Network;
  /** Another one once a form has succeeded where JSON was refused. */
  #service: TokenService;
  #usesForm = false;
  /** What became of a form that was refused too. */
  #triedForm = '';
  readonly #checks: CheckResult[] = [];
  #answer: ParsedAnswer | undefined;

  constructor(credentials: Credentials, network: Network, signal: AbortSignal, settings: Settings) {
    this.#credentials = credentials;
    this.#network = network;
    this.#signal = signal;
    this.#settings = settings;
    this.#service = this.#serviceWith(undefined);
  }

  #serviceWith(tokenRequest: TokenRequestShape | undefined): TokenService {
    const parseResponse = (body: unknown) => this.#parse(body);
    return new TokenService(this.#credentials, this.#network, { ...this.#settings, parseResponse, tokenRequest });
  }

  close(): void {
    this.#service.close();
  }

  async run(plan: ProbePlan | undefined, revocation: boolean): Promise<Report> {
    const { baseUrl } = this.#credentials;
    await this.#step('name', [], () => checkName(baseUrl, this.#network));
    await this.#step('tls', ['name'], (signal) => checkTls(baseUrl, signal, this.#network));
    await this.#step('token', ['name', 'tls'], (signal) => this.#obtain(signal));
    this.#checks.push({ check: 'clock', ...clockDifference(this.#service.lastAnswer) });
    const answer = this.#answer;
    const nowMs = Date.now();
    if (answer) this.#checks.push(...checksOn(answer, nowMs));
    else for (const check of ['shape', 'lifetime', 'format'] as const) this.#skip(check, 'token');
    if (plan) await this.#probe(plan);
    if (answer) this.#judgeOwner(plan);
    if (plan && revocation) await this.#revoke(plan);
    const revokes = this.#factOf('revocation', 'revokesPrevious') as boolean | undefined;
    return {
      ok: !this.#checks.some(({ status }) => status === 'failed'),
      checks: this.#checks,
      options: answer ? optionsFor(answer, { revokesPrevious: revokes, usesForm: this.#usesForm }, nowMs) : [],
      differences: [],
      ...(answer && sandboxLike(answer, { revokesPrevious: revokes, usesForm: this.#usesForm }, nowMs)),
    };
  }

  async #probe(plan: ProbePlan): Promise<void> {
    await this.#step('probe', ['token'], (signal) =>
      tryToken(plan, { token: this.#answer?.token, network: this.#network }, signal),
    );
  }

  /** Says that a token may be anyone's, unless the resource has named its owner. */
  #judgeOwner(plan: ProbePlan | undefined): void {
    if (this.#factOf('probe', 'wrongOwner')) return;
    if (this.#factOf('probe', 'isOwner')) {
      this.#checks.push({ check: 'owner', status: 'ok', text: 'the resource names the expected owner' });
      return;
    }
    const text = 'not verified: a service that ignores the access key would issue the same token for any';
    const advice =
      plan?.expectedOwner === undefined
        ? 'With --probe-url and --expect-owner, a resource that names the owner of a token can verify it.'
        : 'The resource does not name the owner of the token: expected "owner" in its JSON response.';
    this.#checks.push({ check: 'owner', status: 'skipped', text, advice });
  }

  /** Obtains a second token, to see whether it revokes the first. */
  async #revoke({ url }: ProbePlan): Promise<void> {
    const isConclusive = this.#checks.some(({ check, status }) => check === 'probe' && status === 'ok');
    if (!isConclusive) {
      this.#checks.push({ check: 'revocation', status: 'skipped', text: 'requires a conclusive probe' });
      return;
    }
    await this.#step('revocation', [], async (signal) => {
      const first = this.#answer?.token;
      const second = await this.#requestToken(signal);
      if (first === second) return judgeRevocation('same token');
      const answerTo = (token: string | undefined) => probe(url, { token, network: this.#network }, signal);
      return judgeRevocation({ first: await answerTo(first), second: await answerTo(second) });
    });
  }

  async #obtain(signal: AbortSignal): Promise<Result> {
    const startedMs = performance.now();
    let refusal: OwnerTokenError | undefined;
    try {
      await this.#requestToken(signal);
    } catch (error) {
      if (!mayExpectForm(error)) throw error;
      refusal = error;
      await this.#tryForm(error, signal);
    }
    const tookMs = Math.round(performance.now() - startedMs);
    const facts = { tookMs, encoding: refusal ? 'form' : 'json' };
    if (!refusal) return { status: 'ok', text: `obtained in ${tookMs} ms`, facts };
    return { status: 'warning', text: `obtained with a form; with JSON ${refusal.message}`, facts };
  }

  /** One more request, as a form. Throws the refusal of the JSON if that is refused too. */
  async #tryForm(refusal: OwnerTokenError, signal: AbortSignal): Promise<void> {
    const service = this.#serviceWith(formRequest());
    try {
      await service.endpoint.requestToken(this.#credentials.accessKey, { signal });
    } catch (error) {
      service.close();
      this.#signal.throwIfAborted();
      const { status, oauthError } = error as Partial<OwnerTokenError>;
      this.#triedForm = ` A form was tried as well: ${oauthError ?? status ?? 'no answer'}.`;
      if (oauthError === 'invalid_client') this.#triedForm += ' If the secret is right, try basicAuthRequest().';
      throw refusal;
    }
    this.#service.close();
    this.#service = service;
    this.#usesForm = true;
  }

  async #requestToken(signal: AbortSignal): Promise<string> {
    return (await this.#service.endpoint.requestToken(this.#credentials.accessKey, { signal })).token;
  }

  #parse(body: unknown): { token: string; tokenType?: string } {
    const { clientId, clientSecret, accessKey } = this.#credentials;
    const answer = parseAnswer(body, { sent: [clientId, clientSecret, accessKey], nowMs: Date.now() });
    if (!answer) throw new OwnerTokenError('invalid_response', 'the response holds no token in any known field');
    this.#answer ??= answer;
    return { token: answer.token, ...(answer.tokenType && { tokenType: answer.tokenType.value }) };
  }

  /** Runs one check within its deadline. Skips it if a check that it needs failed. */
  async #step(
    check: CheckName,
    needs: readonly CheckName[],
    run: (signal: AbortSignal) => Promise<Result>,
  ): Promise<void> {
    const missing = needs.find((need) => !this.#checks.some((found) => found.check === need && isUsable(found)));
    if (missing) {
      this.#skip(check, missing);
      return;
    }
    try {
      const result = await withDeadline(this.#settings.timeoutMs + STEP_GRACE_MS, this.#signal, run);
      this.#checks.push({ check, ...result });
    } catch (error) {
      // Ctrl-C ends the examination, not just this step.
      this.#signal.throwIfAborted();
      if (check === 'token') this.#answer = undefined;
      const isEndpoints = error instanceof OwnerTokenError;
      this.#checks.push({ check, ...(isEndpoints ? await this.#refusal(error) : foreignFailure(error)) });
    }
  }

  #skip(check: CheckName, missing: CheckName): void {
    this.#checks.push({ check, status: 'skipped', text: `requires the ${missing} check to pass` });
  }

  async #refusal(error: OwnerTokenError): Promise<Result> {
    const { code, failureScope, status, oauthError, retryAfterMs, cause } = error;
    const { errorDescription } = this.#service;
    const facts = { code, failureScope, status, oauthError, errorDescription, retryAfterMs, cause: cause?.code };
    const causeText = cause?.code ? `, cause ${cause.code}` : '';
    const diagnosis = await this.#service.diagnose(error, this.#signal);
    const hint =
      ' Without an error code of RFC 6749 the library cannot tell whether this refusal concerns the owner or the client: see classifyFailure.';
    const isUnnamed = this.#service.refusedWithoutCode && code !== 'invalid_response';
    const advice = `${diagnosis}${this.#triedForm}${isUnnamed ? hint : ''}`;
    return {
      status: 'failed',
      text: `${error.message}; code ${code}, scope ${failureScope}${causeText}`,
      advice,
      facts,
    };
  }

  #factOf(name: CheckName, fact: string): unknown {
    return this.#checks.find(({ check }) => check === name)?.facts?.[fact];
  }
}

/** Whether a service that refuses JSON in this way may expect a form. */
function mayExpectForm(error: unknown): error is OwnerTokenError {
  if (!(error instanceof OwnerTokenError)) return false;
  return error.status === 415 || ['invalid_request', 'unsupported_grant_type'].includes(error.oauthError ?? '');
}

const isUsable = ({ status }: CheckResult): boolean => status === 'ok' || status === 'warning';
