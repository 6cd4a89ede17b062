import { Status, Table, TokenStatus } from '../../picture/parts.tsx';
import { countWord, sentence, spanWord, timeWord } from '../../picture/words.ts';
import type { OwnerReport } from '../../registry/reports.ts';

/** Owners with what is known of each. On a phone the cells stand one below the other. */
export function OwnersTable(props: { label: string; owners: readonly OwnerReport[]; nowMs: number }) {
  const { label, owners, nowMs } = props;
  return (
    <Table label={label} heads={HEADS} looks={{ region: 'owners', table: 'stack' }}>
      {owners.map((report, index) => (
        // Labels need not be unique.
        <OwnerRow key={`${report.owner} ${index}`} report={report} nowMs={nowMs} />
      ))}
    </Table>
  );
}

const HEADS = ['Owner', 'Token', 'Why', 'Failing for', 'Next attempt', 'Last token', { number: 'Failures' }];

function OwnerRow({ report, nowMs }: { report: OwnerReport; nowMs: number }) {
  const { owner, code, retryAtMs, issuedAtMs, failure } = report;
  return (
    <tr>
      <th scope="row">{owner}</th>
      <td data-word="Token">
        <Token report={report} nowMs={nowMs} />
      </td>
      <td data-word="Why" class="why">
        {failure && `${sentence(failure.message)} `}
        {(failure?.code ?? code) && <code>{[failure?.code ?? code, failure?.status].filter(Boolean).join(' ')}</code>}
      </td>
      <td data-word="Failing for">{failure && agoWord(failure.sinceMs, nowMs)}</td>
      <td data-word="Next attempt">{retryAtMs !== undefined && whenWord(retryAtMs, nowMs)}</td>
      <td data-word="Last token">{issuedAtMs === undefined ? 'none seen' : `${agoWord(issuedAtMs, nowMs)} ago`}</td>
      <td data-word="Failures" class="number">
        {failure ? countWord(failure.failures) : ''}
      </td>
    </tr>
  );
}

const PHASES = {
  rejected: 'rejected; the next call requests another',
  requesting: 'requested now',
  'backing-off': 'none',
  expired: 'expired; the next call requests one',
  empty: 'none yet',
} as const;

function Token({ report: { phase, expiresAtMs, failure }, nowMs }: { report: OwnerReport; nowMs: number }) {
  if (phase !== 'fresh' && phase !== 'refresh-due')
    return <Status good={phase === 'requesting'}>{PHASES[phase]}</Status>;
  if (failure?.code === 'token_rejected') return <Status good={false}>rejected, but given out</Status>;
  // Infinity is null in JSON.
  return <TokenStatus endMs={expiresAtMs ?? Infinity} nowMs={nowMs} none="expired" />;
}

const wholeSeconds = (ms: number) => spanWord(Math.max(1, Math.round(ms / 1000)) * 1000);

export const agoWord = (atMs: number, nowMs: number): string => wholeSeconds(nowMs - atMs);

/** When a request may start: one starts with a call, not by itself. */
export const whenWord = (atMs: number, nowMs: number): string =>
  atMs <= nowMs ? 'with the next call' : `in ${wholeSeconds(atMs - nowMs)}, at ${timeWord(atMs)}`;
