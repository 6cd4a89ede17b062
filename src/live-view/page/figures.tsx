import { Figure } from '../../page-engine/parts.tsx';
import { countWord, plural, spanWord, timeWord } from '../../page-engine/words.ts';
import type { PageOptions, Rates, RegistryView } from '../frames.ts';
import { nextWord, paceWord, sinceWord } from '../sentence.ts';
import { type Facts, isWide } from '../status.ts';

/** The numbers behind the verdict. Trouble is loud, health is quiet. */
export function Figures({ registry, status, page }: { registry: RegistryView; status: Facts; page: PageOptions }) {
  const { stats, rates } = registry;
  const waiting = stats.waiting > 0 && `${plural(stats.waiting, 'call')} waiting`;
  const fromCache = rates && (rates.calls > 0 ? `${(rates.fromCache * 100).toFixed(1)}% from the cache` : 'none now');
  return (
    <dl class="figures">
      <Figure
        word="Owners that cannot be served"
        value={countWord(status.unserved)}
        tone={status.unserved > 0 ? 'alarm' : undefined}
        hint={listWord([
          `of ${countWord(status.known)}`,
          status.waiting > 0 && `${countWord(status.waiting)} wait for a token`,
        ])}
      />
      <FailedCalls rates={rates} />
      <Service status={status} />
      <Figure word="Calls" value={rateWord(rates?.calls)} unit="/s" hint={listWord([fromCache, waiting])} />
      <Requests registry={registry} status={status} />
      <Sharing registry={registry} page={page} />
    </dl>
  );
}

function FailedCalls({ rates }: { rates: Rates | undefined }) {
  const { failed, abandoned = 0, late } = rates ?? {};
  const sum = failed && failed.request + failed.refused + failed.queue;
  return (
    <Figure
      word="Calls that fail"
      value={rateWord(sum)}
      unit="/s"
      tone={sum ? 'alarm' : abandoned > 0 ? 'warning' : undefined}
      hint={listWord([
        `${rateWord(failed?.request)} with their request`,
        `${rateWord(failed?.refused)} refused by a pause`,
        `${rateWord(failed?.queue)} by the queue`,
        `beside these ${rateWord(rates?.abandoned)} given up and ${rateWord(late)} late`,
      ])}
    />
  );
}

const SERVICE = {
  works: ['works', undefined],
  slow: ['slow', 'warning'],
  partly: ['fails in part', 'warning'],
  fails: ['fails', 'alarm'],
} as const;

function Service({ status }: { status: Facts }) {
  const circuit = status.causes.find(isWide);
  const [word, tone] = SERVICE[status.service];
  const hint = circuit
    ? [sinceWord(circuit.sinceMs, status, timeWord), nextWord(circuit, status, timeWord)]
    : ['circuit closed'];
  return (
    <Figure
      word="Token service"
      value={circuit?.scope === 'client' ? 'refuses the client' : word}
      tone={tone}
      hint={listWord(hint)}
    />
  );
}

function Requests({ registry: { stats, rates }, status: { pace } }: { registry: RegistryView; status: Facts }) {
  return (
    <Figure
      word="Token requests"
      value={rateWord(rates?.requests)}
      unit="/s"
      tone={pace?.reason === 'overload' ? 'warning' : undefined}
      hint={listWord([
        pace && paceWord(pace),
        `${countWord(stats.inFlight)} of ${countWord(stats.concurrency)} in flight`,
        stats.slow > 0 && `${countWord(stats.slow)} slow`,
        stats.queued > 0 && `${countWord(stats.queued)} queued`,
        stats.latencyMs !== undefined && `a token takes about ${spanWord(stats.latencyMs)}`,
      ])}
    />
  );
}

const TROUBLES = {
  timeout: 'Redis does not answer in time',
  connection: 'no connection to Redis',
  read_only: 'Redis is read-only',
  full: 'Redis is full',
  denied: 'Redis denies access',
  refused: 'Redis refuses the command',
  protocol_error: 'what answers is not Redis',
} as const;

function Sharing({ registry: { fleet, sharingOff }, page }: { registry: RegistryView; page: PageOptions }) {
  if (!fleet) return null;
  const { sharing, replicas, shared, leader, fallback, mismatched } = fleet;
  const { trouble, redisCode, sinceMs } = sharingOff ?? {};
  const why = [trouble ? TROUBLES[trouble] : 'Redis is unavailable', redisCode && `(${redisCode})`];
  const words = sharing
    ? [`${shared} received`, `${leader} requested for all`, `${fallback} alone`]
    : [
        sinceMs === undefined ? 'since before this page was mounted' : `since ${timeWord(sinceMs)}`,
        why.filter(Boolean).join(' '),
        `this replica requests its own tokens (${fallback} so far)`,
      ];
  const others = mismatched > 0 && `${plural(mismatched, 'replica')} with other keys cannot share`;
  return (
    <Figure
      word="Sharing"
      value={sharing ? plural(replicas, 'replica') : 'off'}
      tone={!sharing || mismatched > 0 ? 'alarm' : undefined}
      hint={
        <>
          {listWord([...words, others])}
          {!sharing && '. '}
          {!sharing && <Runbook page={page} alert="ownertokenfleetnotsharing" />}
        </>
      }
    />
  );
}

/** A link to the runbook of an alert, if the host says where the runbooks are. */
export const Runbook = ({ page, alert }: { page: PageOptions; alert: string }) =>
  page.runbooksUrl === undefined ? null : <a href={`${page.runbooksUrl}#${alert}`}>Runbook</a>;

const listWord = (words: readonly (string | false | undefined)[]): string => words.filter(Boolean).join(', ');

export const rateWord = (perSecond: number | undefined): string =>
  perSecond === undefined ? '–' : perSecond < 10 ? perSecond.toFixed(1) : countWord(Math.round(perSecond));
