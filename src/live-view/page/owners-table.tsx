import { Status, Table, TokenStatus } from '../../page-engine/parts.tsx';
import { countWord, sentence, spanWord, timeWord } from '../../page-engine/words.ts';
import type { FoundOwner } from '../frames.ts';
import { isOdd, visibleWord } from '../labels.ts';
import { hashWith } from './use-address.ts';

/** Owners with what is known of each. On a phone the cells stand one below the other. */
export function OwnersTable(props: { label: string; owners: readonly FoundOwner[]; nowMs: number }) {
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

function OwnerRow({ report, nowMs }: { report: FoundOwner; nowMs: number }) {
  const { code, retryAtMs, issuedAtMs, failure } = report;
  return (
    <tr>
      <th scope="row">
        <OwnerName report={report} />
      </th>
      <td data-word="Token">
        <Token report={report} nowMs={nowMs} />
      </td>
      <td data-word="Why" class="why">
        {failure && `${sentence(failure.message)} `}
        {(failure?.code ?? code) && <code>{[failure?.code ?? code, failure?.status].filter(Boolean).join(' ')}</code>}
      </td>
      <td data-word="Failing for">{failure && agoWord(failure.sinceMs, nowMs)}</td>
      <td data-word="Next attempt">{retryAtMs !== undefined && whenWord(retryAtMs, nowMs)}</td>
      <td data-word="Last token">{issuedAtMs === undefined ? 'none known' : `${agoWord(issuedAtMs, nowMs)} ago`}</td>
      <td data-word="Failures" class="number">
        {failure ? countWord(failure.failures) : ''}
      </td>
    </tr>
  );
}

/** Isolated, because a label is the host's text. With its fingerprint where the label alone could be taken for another one. */
function OwnerName({ report: { owner, fingerprint } }: { report: FoundOwner }) {
  return (
    <>
      <a href={hashWith({ owner })}>
        <bdi>{visibleWord(owner)}</bdi>
      </a>
      {isOdd(owner) && fingerprint !== undefined && (
        <>
          {' '}
          <code>{fingerprint}</code>
        </>
      )}
    </>
  );
}

/** By phase, for owners with a token that was requested before, and for those without one. */
const PHASES = {
  rejected: 'rejected; the next call requests another',
  requesting: 'none; a request waits or is in flight',
  'backing-off': 'none',
  expired: 'ended; the next call requests one',
  empty: 'none yet',
} as const;

function Token({ report, nowMs }: { report: FoundOwner; nowMs: number }) {
  const { phase, expiresAtMs, issuedAtMs, failure, withoutService } = report;
  if (expiresAtMs !== undefined && withoutService)
    return <Status good={false}>rejected, and no newer one is issued</Status>;
  if (phase === 'fresh' || phase === 'refresh-due') {
    if (failure?.code === 'token_rejected') return <Status good={false}>rejected, but served</Status>;
    // Infinity is null in JSON.
    return <TokenStatus endMs={expiresAtMs ?? Infinity} nowMs={nowMs} none="ended" />;
  }
  const word = phase === 'empty' && issuedAtMs !== undefined ? PHASES.expired : PHASES[phase];
  return <Status good={false}>{word}</Status>;
}

const wholeSeconds = (ms: number) => spanWord(Math.max(1, Math.round(ms / 1000)) * 1000);

const agoWord = (atMs: number, nowMs: number): string => wholeSeconds(nowMs - atMs);

/** When a request may start: one starts with a call, not by itself. */
const whenWord = (atMs: number, nowMs: number): string =>
  atMs <= nowMs ? 'with the next call' : `in ${wholeSeconds(atMs - nowMs)}, at ${timeWord(atMs)}`;
