import type { ComponentChildren } from 'preact';
import { countWord, plural, spanWord } from '../../picture/words.ts';
import type { RegistryView } from '../frames.ts';
import type { Model } from './model.ts';
import { whenWord } from './owners-table.tsx';

/** The first look: who works, who does not, and whose fault it is. */
export function Figures({ model, registry, nowMs }: { model: Model; registry: RegistryView; nowMs: number }) {
  const { stats, failing } = registry;
  const { pauses } = stats;
  const rates = model.rates(registry.name);
  const latency = model.latency(registry.name);
  const without = failing.filter(({ phase }) => phase !== 'fresh' && phase !== 'refresh-due').length;
  const room = [stats.slow > 0 && `${stats.slow} slow`, `${countWord(stats.queued)} queued`];
  return (
    <dl class="figures">
      <Figure word="Owners with a token" hint={stats.owners === 0 ? 'no owner yet' : `of ${countWord(stats.owners)}`}>
        {countWord(stats.usable)}
      </Figure>
      <Figure
        word="Failing owners"
        alarm={pauses.owners > 0}
        hint={pauses.owners > 0 ? `${countWord(without)} of them without a token` : 'none'}
      >
        {countWord(pauses.owners)}
      </Figure>
      <Circuit word="Client" pause={pauses.client} nowMs={nowMs} />
      <Circuit word="Endpoint" pause={pauses.endpoint} nowMs={nowMs} />
      <Figure
        word="Token requests"
        unit="/s"
        hint={
          latency
            ? `half within ${spanWord(latency.p50)}, 95% within ${spanWord(latency.p95)}`
            : 'none in the last minute'
        }
      >
        {rateWord(rates?.requests)}
      </Figure>
      <Figure
        word="Calls"
        unit="/s"
        hint={rates && rates.calls > 0 ? `${(rates.fromCache * 100).toFixed(1)}% from the cache` : 'none now'}
      >
        {rateWord(rates?.calls)}
      </Figure>
      <Figure
        word="In flight"
        unit={` of ${countWord(stats.concurrency)}`}
        hint={[...room, stats.waiting > 0 && `${plural(stats.waiting, 'call')} waiting`].filter(Boolean).join(', ')}
      >
        {countWord(stats.inFlight)}
      </Figure>
    </dl>
  );
}

type Pause = RegistryView['stats']['pauses']['client'];

function Circuit({ word, pause, nowMs }: { word: string; pause: Pause; nowMs: number }) {
  if (!pause) {
    return (
      <Figure word={word} hint="circuit closed">
        works
      </Figure>
    );
  }
  const next = pause.probing ? 'one attempt is in flight' : `next attempt ${whenWord(pause.retryAtMs, nowMs)}`;
  return (
    <Figure word={word} alarm hint={`${pause.code}, ${plural(pause.failures, 'failure')} in a row; ${next}`}>
      fails
    </Figure>
  );
}

const rateWord = (perSecond: number | undefined): string =>
  perSecond === undefined ? '–' : perSecond < 10 ? perSecond.toFixed(1) : countWord(Math.round(perSecond));

function Figure(props: { word: string; unit?: string; hint: string; alarm?: boolean; children: ComponentChildren }) {
  return (
    <div>
      <dt>{props.word}</dt>
      <dd>
        <span class={props.alarm ? 'value alarm' : 'value'}>
          {props.children}
          {props.unit && <small>{props.unit}</small>}
          {props.alarm && (
            <small role="img" aria-label="alarm">
              {' '}
              ▲
            </small>
          )}
        </span>
        <span class="hint">{props.hint}</span>
      </dd>
    </div>
  );
}
