/** The report of an examination, and its text form. */

/** The result of one check. */
export interface Result {
  readonly status: 'ok' | 'warning' | 'failed' | 'skipped';
  /** Holds no secret. */
  readonly text: string;
  /** The next step. */
  readonly advice?: string;
  /** The same in machine-readable form. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

export type CheckName =
  | ('name' | 'tls' | 'token' | 'clock' | 'shape' | 'lifetime' | 'format')
  | ('owner' | 'probe' | 'revocation');

export interface CheckResult extends Result {
  readonly check: CheckName;
}

export interface Report {
  readonly ok: boolean;
  readonly checks: readonly CheckResult[];
  /** Recommended options, as lines of code. */
  readonly options: readonly string[];
  /** Options of a sandbox that answers like this service; absent without a token. */
  readonly sandbox?: object;
  /** How that sandbox still differs from the service. */
  readonly differences: readonly string[];
}

const RECOMMENDED =
  'Recommended options (tokenRequest and parseResponse of TokenEndpoint, all others of OwnerTokenRegistry)';

/** One line per check with its advice below, then the recommended options. */
export function describeReport({ ok, checks, options, differences }: Report): string {
  const lines = checks.flatMap(({ check, status, text, advice }) => [
    `${status.padEnd(9)}${check.padEnd(12)}${text}`,
    ...(advice ? [`${' '.repeat(21)}${advice}`] : []),
  ]);
  const recommended = options.length > 0 ? options.map((line) => `  ${line}`) : ['  none: the defaults fit'];
  const hasToken = checks.some(({ check, status }) => check === 'token' && (status === 'ok' || status === 'warning'));
  return [
    ...lines,
    ...(hasToken ? ['', RECOMMENDED, ...recommended] : []),
    ...(differences.length > 0
      ? ['', 'Differences that a sandbox profile cannot express', ...differences.map((each) => `  ${each}`)]
      : []),
    '',
    summaryOf(ok, checks),
    '',
  ].join('\n');
}

function summaryOf(ok: boolean, checks: readonly CheckResult[]): string {
  const count = (status: Result['status']) => checks.filter((each) => each.status === status).length;
  const warnings = count('warning') === 0 ? '' : `, with ${plural(count('warning'), 'warning')}`;
  return ok ? `All checks passed${warnings}.` : `${plural(count('failed'), 'check')} failed${warnings}.`;
}

export const plural = (n: number, one: string, many = `${one}s`): string => `${n} ${n === 1 ? one : many}`;
