/** What the examination found, for people and for machines. */

/** What a check came to. */
export interface Found {
  readonly status: 'ok' | 'warning' | 'failed' | 'skipped';
  /** In words that hold no secret. */
  readonly text: string;
  /** What to do about it. */
  readonly advice?: string;
  /** The same for machines. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

export type CheckName = 'name' | 'tls' | 'token' | 'clock' | 'shape' | 'lifetime' | 'format' | 'probe' | 'revocation';

export interface Finding extends Found {
  readonly check: CheckName;
}

export interface Report {
  readonly ok: boolean;
  readonly findings: readonly Finding[];
  /** Options that follow from what was found, as code. */
  readonly options: readonly string[];
  /** Options of a sandbox that behaves so; absent without a token. */
  readonly sandbox?: object;
  /** In what the sandbox will differ all the same. */
  readonly differences: readonly string[];
}

/** One line a check, what to do below it, and the options at the end. */
export function describeReport({ ok, findings, options, differences }: Report): string {
  const lines = findings.flatMap(({ check, status, text, advice }) => [
    `${status.padEnd(9)}${check.padEnd(12)}${text}`,
    ...(advice ? [`${' '.repeat(21)}${advice}`] : []),
  ]);
  const follows = options.length > 0 ? options.map((line) => `  ${line}`) : ['  none: the defaults fit'];
  const hasToken = findings.some(({ check, status }) => check === 'token' && status === 'ok');
  return [
    ...lines,
    ...(hasToken ? ['', 'Options that follow', ...follows] : []),
    ...(differences.length > 0
      ? ['', 'What a sandbox profile cannot say', ...differences.map((each) => `  ${each}`)]
      : []),
    '',
    ok ? 'Everything that is needed works.' : 'Something that is needed does not work.',
    '',
  ].join('\n');
}
