import { Figure } from '../../picture/parts.tsx';
import { countWord, plural, spanWord, timeWord } from '../../picture/words.ts';
import type { RegistryView } from '../frames.ts';
import type { Facts } from '../status.ts';
import type { Model } from './model.ts';
import { whenWord } from './owners-table.tsx';

type Tone = 'warning' | 'alarm' | undefined;

/** The numbers behind the verdict. Trouble is loud, health is quiet. */
export function Figures({ model, registry, nowMs }: { model: Model; registry: RegistryView; nowMs: number }) {
  const { stats, status, fleet } = registry;
  const rates = model.rates(registry.name);
  const failing = rates && rates.refused + rates.timedOut;
  const cacheHint = rates && rates.calls > 0 ? `${(rates.fromCache * 100).toFixed(1)}% from the cache` : 'none now';
  const room = [stats.slow > 0 && `${stats.slow} slow`, `${countWord(stats.queued)} queued`];
  return (
    <dl class="figures">
      <Unserved status={status} />
      <Figure
        word="Calls that fail"
        value={rateWord(failing)}
        unit="/s"
        tone={failing ? 'alarm' : undefined}
        hint={`${rateWord(rates?.refused)} refused, ${rateWord(rates?.timedOut)} by the queue; ${rateWord(rates?.late)} late`}
      />
      <Service registry={registry} nowMs={nowMs} />
      {status?.runway && <Runway status={status} nowMs={nowMs} />}
      <Figure
        word="Pace"
        value={stats.pace ? rateWord(stats.pace.perSecond) : 'not limited'}
        unit={stats.pace && '/s'}
        tone={stats.pace?.reason === 'overload' ? 'warning' : undefined}
        hint={
          !stats.pace
            ? 'no quota, no overload'
            : stats.pace.reason === 'quota'
              ? 'set: requestsPerSecond'
              : 'learned from 429s and 503s'
        }
      />
      {fleet && <Sharing fleet={fleet} />}
      <Figure
        word="Token requests"
        value={rateWord(rates?.requests)}
        unit="/s"
        hint={
          stats.latencyMs === undefined ? 'no token issued yet' : `a token takes about ${spanWord(stats.latencyMs)}`
        }
      />
      <Figure word="Calls" value={rateWord(rates?.calls)} unit="/s" hint={cacheHint} />
      <Figure
        word="In flight"
        value={countWord(stats.inFlight)}
        unit={` of ${countWord(stats.concurrency)}`}
        hint={[...room, stats.waiting > 0 && `${plural(stats.waiting, 'call')} waiting`].filter(Boolean).join(', ')}
      />
    </dl>
  );
}

function Unserved({ status }: { status: Facts | undefined }) {
  const tone: Tone = status && status.unserved > 0 ? 'alarm' : undefined;
  const waiting = status && status.waiting > 0 ? `; ${countWord(status.waiting)} wait for a token` : '';
  return (
    <Figure
      word="Owners that cannot be served"
      value={status ? countWord(status.unserved) : '–'}
      tone={tone}
      hint={status ? `of ${countWord(status.known)}${waiting}` : 'counting'}
    />
  );
}

const SERVICE = { works: 'works', partly: 'fails in part', fails: 'fails' } as const;

function Service({ registry: { stats, status }, nowMs }: { registry: RegistryView; nowMs: number }) {
  const { client, endpoint } = stats.pauses;
  const pause = client ?? endpoint;
  const state = pause ? 'fails' : status?.service === 'partly' ? 'partly' : 'works';
  const next = pause?.probing ? 'an attempt is in flight' : pause && `next attempt ${whenWord(pause.retryAtMs, nowMs)}`;
  const hint = pause
    ? `since ${timeWord(pause.sinceMs)}; ${plural(pause.failures, 'failure')} in a row; ${next}`
    : 'circuit closed';
  return (
    <Figure
      word="Token service"
      value={client ? 'refuses the client' : SERVICE[state]}
      tone={({ works: undefined, partly: 'warning', fails: 'alarm' } as const)[state]}
      hint={hint}
    />
  );
}

function Runway({ status: { runway }, nowMs }: { status: Facts; nowMs: number }) {
  const { firstAtMs, halfAtMs, owners } = runway as NonNullable<Facts['runway']>;
  const half = halfAtMs === undefined ? '' : `; half of all by ${timeWord(halfAtMs)}`;
  return (
    <Figure
      word="Runway"
      value={spanWord(Math.max(1_000, firstAtMs - nowMs))}
      tone="warning"
      hint={`${plural(owners, 'owner')} served from the cache, the first until ${timeWord(firstAtMs)}${half}`}
    />
  );
}

function Sharing({ fleet }: { fleet: NonNullable<RegistryView['fleet']> }) {
  const { sharing, replicas, shared, leader, fallback, mismatched } = fleet;
  const others = mismatched > 0 ? `; ${plural(mismatched, 'replica')} with other keys cannot share` : '';
  return (
    <Figure
      word="Sharing"
      value={sharing ? plural(replicas, 'replica') : 'off'}
      tone={!sharing || mismatched > 0 ? 'alarm' : undefined}
      hint={
        sharing
          ? `${shared} received, ${leader} requested for all, ${fallback} alone${others}`
          : `Redis is unavailable: this replica requests its own tokens (${fallback} so far)`
      }
    />
  );
}

const rateWord = (perSecond: number | undefined): string =>
  perSecond === undefined ? '–' : perSecond < 10 ? perSecond.toFixed(1) : countWord(Math.round(perSecond));
