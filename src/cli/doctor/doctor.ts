/** `owner-token-registry doctor`: what an integrator should know of a token service, found out step by step. */

import { writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { type EndpointFailure, OwnerTokenError, TokenEndpoint } from '../../index.ts';
import { adviceFor } from '../advice.ts';
import { EXIT, readFlags, type Terminal, UsageError } from '../command.ts';
import { readVariables } from '../token.ts';
import { type SeenAnswer, seenIn } from './answer.ts';
import { findingsOf, optionsFor, sandboxLike } from './checks.ts';
import { clockDifference, lookAtName, lookAtTls, watchAnswers } from './network.ts';
import { statusOf, verdictOnProbe, verdictOnRevocation } from './probe.ts';
import { type CheckName, describeReport, type Finding, type Found, type Report } from './report.ts';

export const usage = `Usage: owner-token-registry doctor [options]

Examines a token service: its name, its certificate, its clock, one token and what is said of it; and tells which
options of the library follow. Credentials are read from the environment: OTR_BASE_URL, OTR_CLIENT_ID,
OTR_CLIENT_SECRET, OTR_ACCESS_KEY. No secret is printed.

  --probe-url U           a resource to try the token on, with a GET; on the origin of OTR_BASE_URL
  --allow-origin O        another origin that the probe may be on; may be given more than once
  --allow-revocation      with --probe-url: obtain a second token, to see whether it ends the first. It may end one
                          that is in use for this owner
  --json                  one JSON object instead of text
  --write-profile F       write a file for owner-token-registry sandbox --config F, which then answers alike
  --timeout S             seconds for each step; 10 by default
  --allow-insecure-http   plain http to another machine, which sends all secrets in clear

Ends with 0 when everything needed works, whatever there is to be warned of; with 1 when something does not.
`;

export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const flags = readFlags(args, {
    'probe-url': { type: 'string' },
    'allow-origin': { type: 'string', multiple: true },
    'allow-revocation': { type: 'boolean' },
    json: { type: 'boolean' },
    'write-profile': { type: 'string' },
    timeout: { type: 'string' },
    'allow-insecure-http': { type: 'boolean' },
  });
  const mayRevoke = flags['allow-revocation'] ?? false;
  if (mayRevoke && flags['probe-url'] === undefined) throw new UsageError('--allow-revocation: needs --probe-url');
  const patient = new Patient(terminal, {
    timeoutMs: timeoutOf(flags.timeout),
    allowInsecureHttp: flags['allow-insecure-http'] ?? false,
  });
  const origins = (flags['allow-origin'] ?? []).map(originOf);
  const probeUrl = flags['probe-url'] === undefined ? undefined : patient.probeUrlOf(flags['probe-url'], origins);
  let report: Report;
  try {
    report = await patient.examine(probeUrl, mayRevoke);
  } finally {
    patient.dismiss();
  }
  terminal.out.write(flags.json ? `${JSON.stringify(report)}\n` : describeReport(report));
  if (flags['write-profile'] !== undefined) writeProfile(flags['write-profile'], report, terminal);
  return report.ok ? EXIT.ok : EXIT.failed;
}

interface Settings {
  timeoutMs: number;
  allowInsecureHttp: boolean;
}

/** One service under examination. Each step has a deadline of its own; what needs a step that failed is skipped. */
class Patient {
  readonly #terminal: Terminal;
  readonly #settings: Settings;
  readonly #baseUrl: URL;
  readonly #accessKey: string;
  readonly #sent: readonly string[];
  readonly #agent: http.Agent;
  readonly #answers: ReturnType<typeof watchAnswers>;
  readonly #endpoint: TokenEndpoint;
  readonly #findings: Finding[] = [];
  #seen: SeenAnswer | undefined;
  #failure: EndpointFailure | undefined;

  constructor(terminal: Terminal, settings: Settings) {
    this.#terminal = terminal;
    this.#settings = settings;
    const [baseUrl, clientId, clientSecret, accessKey] = readVariables(terminal);
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

  dismiss(): void {
    this.#answers.stop();
    this.#agent.destroy();
  }

  async examine(probeUrl: URL | undefined, mayRevoke: boolean): Promise<Report> {
    await this.#step('name', [], () => lookAtName(this.#baseUrl));
    await this.#step('tls', ['name'], (signal) => lookAtTls(this.#baseUrl, signal));
    await this.#step('token', ['name', 'tls'], (signal) => this.#obtain(signal));
    this.#findings.push({ check: 'clock', ...clockDifference(this.#answers.last()) });
    const seen = this.#seen;
    const nowMs = Date.now();
    if (seen) this.#findings.push(...findingsOf(seen, nowMs));
    if (probeUrl) await this.#probe(probeUrl, mayRevoke);
    const revokes = this.#factOf('revocation', 'revokesPrevious') as boolean | undefined;
    return {
      ok: !this.#findings.some(({ status }) => status === 'failed'),
      findings: this.#findings,
      options: seen ? optionsFor(seen, revokes, nowMs) : [],
      differences: [],
      ...(seen && sandboxLike(seen, revokes, nowMs)),
    };
  }

  /** The probe's URL, if tokens may go there. What was given is not repeated. */
  probeUrlOf(given: string, origins: readonly string[]): URL {
    const url = URL.canParse(given) ? new URL(given) : undefined;
    if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password) {
      throw new UsageError('--probe-url: expected an http(s) URL without credentials');
    }
    if (![this.#baseUrl.origin, ...origins].includes(url.origin)) {
      throw new UsageError('--probe-url: not on the origin of OTR_BASE_URL; name its origin with --allow-origin');
    }
    // The rule for plain http is the endpoint's: it refuses what it would not send a secret to.
    const { allowInsecureHttp } = this.#settings;
    new TokenEndpoint({ baseUrl: url.origin, clientId: 'none', clientSecret: 'none', allowInsecureHttp });
    return url;
  }

  async #probe(url: URL, mayRevoke: boolean): Promise<void> {
    await this.#step('probe', ['token'], async (signal) => {
      const without = await statusOf(url, undefined, signal);
      return verdictOnProbe(without, await statusOf(url, this.#seen?.token, signal));
    });
    if (!mayRevoke) return;
    const isTold = this.#findings.some(({ check, status }) => check === 'probe' && status === 'ok');
    if (!isTold) {
      this.#findings.push({ check: 'revocation', status: 'skipped', text: 'it needs a probe that tells tokens apart' });
      return;
    }
    await this.#step('revocation', [], async (signal) => {
      const first = this.#seen?.token;
      const second = (await this.#endpoint.requestToken(this.#accessKey, { signal })).token;
      if (first === second) return verdictOnRevocation({ same: true, first: 0, second: 0 });
      const [ofFirst, ofSecond] = [await statusOf(url, first, signal), await statusOf(url, second, signal)];
      return verdictOnRevocation({ same: false, first: ofFirst, second: ofSecond });
    });
  }

  async #obtain(signal: AbortSignal): Promise<Found> {
    const before = performance.now();
    await this.#endpoint.requestToken(this.#accessKey, { signal });
    const tookMs = Math.round(performance.now() - before);
    return { status: 'ok', text: `obtained within ${tookMs} ms`, facts: { tookMs } };
  }

  #parse(body: unknown): { token: string; tokenType?: string } {
    const seen = seenIn(body, { sent: this.#sent, nowMs: Date.now() });
    if (!seen) throw new OwnerTokenError('invalid_response', 'the answer has no token in any place that is known of');
    this.#seen ??= seen;
    return { token: seen.token, ...(seen.tokenType && { tokenType: seen.tokenType.value }) };
  }

  /** One check: skipped if one that it needs failed, given up at its deadline. */
  async #step(
    check: CheckName,
    needs: readonly CheckName[],
    look: (signal: AbortSignal) => Promise<Found>,
  ): Promise<void> {
    const missing = needs.find((need) => !this.#findings.some((found) => found.check === need && isGood(found)));
    if (missing) {
      this.#findings.push({ check, status: 'skipped', text: `it needs what failed before: ${missing}` });
      return;
    }
    try {
      this.#findings.push({ check, ...(await withDeadline(this.#settings.timeoutMs, this.#terminal.signal, look)) });
    } catch (error) {
      // Ctrl-C ends the whole, and not the step.
      this.#terminal.signal.throwIfAborted();
      if (check === 'token') this.#seen = undefined;
      this.#findings.push({ check, ...failureOf(error, this.#failure) });
    }
  }

  #factOf(name: CheckName, fact: string): unknown {
    return this.#findings.find(({ check }) => check === name)?.facts?.[fact];
  }
}

const isGood = ({ status }: Finding): boolean => status === 'ok' || status === 'warning';

/** Runs it with a signal that ends with the given one, and after this time; whichever comes first ends the wait. */
async function withDeadline<T>(ms: number, outer: AbortSignal, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const ended = new AbortController();
  const onAbort = (): void => ended.abort(outer.reason);
  if (outer.aborted) onAbort();
  outer.addEventListener('abort', onAbort, { once: true });
  // A little later than the endpoint's own deadline, which knows more of what it waited for.
  const timer = setTimeout(() => ended.abort(new TimedOut(ms)), ms + 50);
  try {
    const gaveUp = new Promise<never>((_, reject) => {
      ended.signal.addEventListener('abort', () => reject(ended.signal.reason), { once: true });
    });
    return await Promise.race([gaveUp, run(ended.signal)]);
  } finally {
    clearTimeout(timer);
    outer.removeEventListener('abort', onAbort);
  }
}

class TimedOut extends Error {
  readonly code = 'ETIMEDOUT';
  constructor(ms: number) {
    super(`nothing came within ${ms / 1000} s`);
  }
}

const ADVICE_BY_CODE: Readonly<Record<string, string>> = {
  ENOTFOUND: 'No such name is known here. Is it spelled right, and can this machine reach its name server?',
  EAI_AGAIN: 'The name server does not answer. Is this machine connected?',
  ECONNREFUSED: 'Nothing listens there. Is the port right?',
  ECONNRESET: 'The connection was cut. Does something between here and there forbid it?',
};

/** A failure by its code, its scope and what to do. What foreign errors say is not repeated. */
function failureOf(error: unknown, seen: EndpointFailure | undefined): Found {
  if (error instanceof TimedOut) return { status: 'failed', text: error.message, facts: { code: error.code } };
  if (!(error instanceof OwnerTokenError)) {
    const cause = new OwnerTokenError('source_failed', 'scrubbed', { cause: error }).cause;
    const code = cause?.code ?? cause?.cause?.code ?? cause?.name ?? 'Error';
    const advice = ADVICE_BY_CODE[code];
    return { status: 'failed', text: `it failed: ${code}`, ...(advice && { advice }), facts: { code } };
  }
  const { code, failureScope, status, oauthError, cause } = error;
  const facts = { code, failureScope, status, oauthError, cause: cause?.code };
  const told = [code, failureScope && `stops the ${failureScope}`, cause?.code].filter(Boolean).join(', ');
  return { status: 'failed', text: `${error.message} (${told})`, advice: adviceOn(error, seen), facts };
}

function adviceOn(error: OwnerTokenError, seen: EndpointFailure | undefined): string {
  const isUnnamed = seen?.kind === 'status' && seen.oauthError === undefined && error.status !== 429;
  const isRefusal = error.status !== undefined && error.status >= 400 && error.status < 500;
  if (!isUnnamed || !isRefusal) return adviceFor(error);
  return `${adviceFor(error)} The refusal has no code of RFC 6749: classifyFailure can say whom it concerns.`;
}

function timeoutOf(given: string | undefined): number {
  if (given === undefined) return 10_000;
  const ms = /^\d+(\.\d+)?$/.test(given) ? Math.round(Number(given) * 1000) : 0;
  if (ms < 1 || ms > 600_000) throw new UsageError('--timeout: expected seconds, up to 600');
  return ms;
}

function originOf(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`) return url.origin;
  throw new UsageError('--allow-origin: expected an origin such as https://api.example.com');
}

function writeProfile(path: string, { sandbox }: Report, terminal: Terminal): void {
  if (!sandbox) {
    terminal.err.write('warning: nothing was learned of its answers, so no profile was written\n');
    return;
  }
  try {
    writeFileSync(path, `${JSON.stringify(sandbox, null, 2)}\n`);
  } catch (error) {
    throw new UsageError(`--write-profile: the file cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}
