import { OwnerTokenError } from '../../index.ts';
import { withDeadline } from '../deadline.ts';
import type { Credentials } from '../environment.ts';
import type { Network } from '../network.ts';
import { hasAccessKey, type RequestShape } from '../request-shape.ts';
import { TokenService } from '../token-service.ts';
import { type ParsedAnswer, parseAnswer } from './answer.ts';
import { type Attempt, mostTelling, nextAttempt, othersIn, type Refusal, wordsFor } from './attempts.ts';
import { checksOn, type Observed, optionsFor, sandboxLike } from './checks.ts';
import { foreignFailure } from './failure.ts';
import { checkName, checkTls, clockDifference } from './network.ts';
import { judgeRevocation, probe, tryToken } from './probe.ts';
import type { ProbePlan } from './probe-plan.ts';
import type { CheckName, CheckResult, Report, Result } from './report.ts';

interface Settings {
  /** Deadline of each step. */
  readonly timeoutMs: number;
  readonly allowInsecureHttp: boolean;
  /** The shape of the request, as far as it was given. */
  readonly shape: RequestShape;
}

/** The step's own deadline is later than the endpoint's, whose error says more, also on a busy machine. */
const STEP_GRACE_MS = 500;

type RefusedBy = Refusal & { readonly service: TokenService };

/** The examination of one service. Each step has its own deadline; a step whose precondition failed is skipped. */
export class Examination {
  readonly #signal: AbortSignal;
  readonly #settings: Settings;
  readonly #credentials: Credentials;
  readonly #network: Network;
  /** That of the attempt that brought a token, or of the refusal that tells most; undefined before the first. */
  #service: TokenService | undefined;
  #obtained: Attempt | undefined;
  /** What became of the other attempts. */
  #triedOthers = '';
  readonly #checks: CheckResult[] = [];
  #answer: ParsedAnswer | undefined;

  constructor(credentials: Credentials, network: Network, signal: AbortSignal, settings: Settings) {
    this.#credentials = credentials;
    this.#network = network;
    this.#signal = signal;
    this.#settings = settings;
  }

  #serviceFor({ credentials, encoding }: Attempt): TokenService {
    const { shape, ...settings } = this.#settings;
    const parseResponse = (body: unknown) => this.#parse(body);
    return new TokenService(credentials, this.#network, { ...shape, encoding }, { ...settings, parseResponse });
  }

  close(): void {
    this.#service?.close();
  }

  async run(plan: ProbePlan | undefined, revocation: boolean): Promise<Report> {
    const { baseUrl } = this.#credentials;
    await this.#step('name', [], () => checkName(baseUrl, this.#network));
    await this.#step('tls', ['name'], (signal) => checkTls(baseUrl, signal, this.#network));
    await this.#step('token', ['name', 'tls'], (signal) => this.#obtain(signal));
    this.#checks.push({ check: 'clock', ...clockDifference(this.#service?.lastAnswer) });
    const answer = this.#answer;
    const nowMs = Date.now();
    if (answer) this.#checks.push(...checksOn(answer, nowMs));
    else for (const check of ['shape', 'lifetime', 'format'] as const) this.#skip(check, 'token');
    if (plan) await this.#probe(plan);
    if (answer) this.#judgeOwner(plan);
    if (plan && revocation) await this.#revoke(plan);
    const observed = this.#observed();
    return {
      ok: !this.#checks.some(({ status }) => status === 'failed'),
      checks: this.#checks,
      options: answer ? optionsFor(answer, observed, nowMs) : [],
      differences: [],
      ...(answer && sandboxLike(answer, observed, nowMs)),
    };
  }

  #observed(): Observed {
    const { clientId, clientSecret, accessKey } = this.#credentials;
    const { credentials = this.#credentials, encoding } = this.#obtained ?? {};
    return {
      revokesPrevious: this.#factOf('revocation', 'revokesPrevious') as boolean | undefined,
      shape: { ...this.#settings.shape, encoding, path: credentials.tokenPath },
      baseUrl: credentials.tokenPath === this.#settings.shape.path ? undefined : credentials.baseUrl,
      sent: [clientId, clientSecret, accessKey],
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
    const text = hasAccessKey(this.#settings.shape)
      ? 'not verified: a service that ignores the access key would issue the same token for any'
      : 'not verified: the request has no access key, so it names no owner';
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

  /** Tries the shapes of a request until one brings a token, and keeps the service of that one, or of the most telling refusal. */
  async #obtain(signal: AbortSignal): Promise<Result> {
    const startedMs = performance.now();
    const refusals: RefusedBy[] = [];
    const { shape } = this.#settings;
    for (;;) {
      const attempt = nextAttempt(this.#credentials, shape, refusals);
      if (!attempt) throw this.#refusedBy(refusals);
      const service = this.#serviceFor(attempt);
      try {
        await service.endpoint.requestToken(this.#credentials.accessKey, { signal });
        this.#keep(service, refusals);
        this.#obtained = attempt;
        return obtainedIn(Math.round(performance.now() - startedMs), attempt, shape, refusals);
      } catch (error) {
        refusals.push({ ...attempt, service, error: error as OwnerTokenError });
        if (this.#signal.aborted) throw this.#refusedBy(refusals);
      }
    }
  }

  #refusedBy(refusals: readonly RefusedBy[]): OwnerTokenError {
    const told = mostTelling(refusals);
    this.#keep(told.service, refusals);
    this.#triedOthers = othersIn(refusals, told);
    return told.error;
  }

  /** Closes the services of the other attempts. */
  #keep(kept: TokenService, refusals: readonly RefusedBy[]): void {
    for (const { service } of refusals) if (service !== kept) service.close();
    this.#service = kept;
  }

  async #requestToken(signal: AbortSignal): Promise<string> {
    const { endpoint } = this.#service as TokenService;
    return (await endpoint.requestToken(this.#credentials.accessKey, { signal })).token;
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
    const service = this.#service as TokenService;
    const facts = { code, failureScope, status, oauthError, retryAfterMs, cause: cause?.code };
    const causeText = cause?.code ? `, cause ${cause.code}` : '';
    const diagnosis = await service.diagnose(error, this.#signal);
    const hint =
      ' Without an error code of RFC 6749 the library cannot tell whether this refusal concerns the owner or the client: see classifyFailure.';
    const isUnnamed = service.refusedWithoutCode && code !== 'invalid_response';
    const advice = `${diagnosis}${this.#triedOthers}${isUnnamed ? hint : ''}`;
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

/** The result of the token check. It is a warning if something other than the given shape was needed. */
function obtainedIn(tookMs: number, attempt: Attempt, given: RequestShape, refusals: readonly Refusal[]): Result {
  const { encoding } = attempt;
  const facts = { tookMs, encoding };
  const [first] = refusals;
  if (first) {
    const how =
      first.encoding === encoding ? 'with OTR_BASE_URL as the complete token URL' : `with ${wordsFor(attempt)}`;
    return { status: 'warning', text: `obtained ${how}; with ${wordsFor(first)} ${first.error.message}`, facts };
  }
  const how = given.encoding === undefined ? '' : `, with ${wordsFor(attempt)}`;
  return { status: 'ok', text: `obtained in ${tookMs} ms${how}`, facts };
}

const isUsable = ({ status }: CheckResult): boolean => status === 'ok' || status === 'warning';
