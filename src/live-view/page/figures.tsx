import { Figure } from '../../picture/parts.tsx';
import { countWord, plural, spanWord } from '../../picture/words.ts';
import type { RegistryView } from '../frames.ts';
import type { Model } from './model.ts';
import { agoWord, whenWord } from './owners-table.tsx';

/** The first look: who works, who does not, and whose fault it is. */
export function Figures({ model, registry, nowMs }: { model: Model; registry: RegistryView; nowMs: number }) {
  const { stats, failing } = registry;
  const { pauses } = stats;
  const rates = model.rates(registry.name);
  const latency = model.latency(registry.name);
  const without = failing.filter(({ phase }) => !LIVE.includes(phase)).length;
  const room = [stats.slow > 0 && `${stats.slow} slow`, `${countWord(stats.queued)} queued`];
  const failingHint = pauses.owners > 0 ? `${countWord(without)} of them without a token` : 'none';
  const latencyHint = latency && `half within ${spanWord(latency.p50)}, 95% within ${spanWord(latency.p95)}`;
  const cacheHint = rates && rates.calls > 0 ? `${(rates.fromCache * 100).toFixed(1)}% from the cache` : 'none now';
  return (
    <dl class="figures">
      <Figure
        word="Owners with a token"
        value={countWord(stats.usable)}
        hint={stats.owners === 0 ? 'no owner yet' : `of ${countWord(stats.owners)}`}
      />
      <Figure
        word="Failing owners"
        value={countWord(pauses.owners)}
        tone={pauses.owners > 0 ? 'alarm' : undefined}
        hint={failingHint}
      />
      <Circuit word="Client" pause={pauses.client} nowMs={nowMs} />
      <Circuit word="Endpoint" pause={pauses.endpoint} nowMs={nowMs} />
      <Figure
        word="Owners the API rejects"
        value={countWord(pauses.rejected?.owners ?? 0)}
        tone={pauses.rejected && 'alarm'}
        hint={pauses.rejected ? `the first for ${agoWord(pauses.rejected.sinceMs, nowMs)}` : 'none'}
      />
      <Figure
        word="Token requests"
        value={rateWord(rates?.requests)}
        unit="/s"
        hint={latencyHint ?? 'none in the last minute'}
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

type Pause = RegistryView['stats']['pauses']['client'];

function Circuit({ word, pause, nowMs }: { word: string; pause: Pause; nowMs: number }) {
  if (!pause) return <Figure word={word} value="works" hint="circuit closed" />;
  const next = pause.probing ? 'one attempt is in flight' : `next attempt ${whenWord(pause.retryAtMs, nowMs)}`;
  const hint = `${pause.code}, ${plural(pause.failures, 'failure')} in a row; ${next}`;
  return <Figure word={word} value="fails" tone="alarm" hint={hint} />;
}

/** With a token that has not ended. */
const LIVE: readonly string[] = ['fresh', 'refresh-due', 'rejected'];

const rateWord = (perSecond: number | undefined): string =>
  perSecond === undefined ? '–' : perSecond < 10 ? perSecond.toFixed(1) : countWord(Math.round(perSecond));
