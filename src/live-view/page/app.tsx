import { useEffect, useState } from 'preact/hooks';
import { countWord, plural, spanWord, timeWord } from '../../picture/words.ts';
import type { RegistryView, Replica } from '../frames.ts';
import type { Connection, Status } from './connection.ts';
import { Figures } from './figures.tsx';
import { Lanes } from './lanes.tsx';
import { OwnersTable } from './owners-table.tsx';
import { Find } from './search.tsx';

const STATUS_WORDS: Readonly<Record<Status, string>> = {
  connecting: 'Connecting',
  live: 'Connected',
  lost: 'Connection lost, trying again',
  refused: 'You may no longer see this page: sign in again',
};

/** @param version the page's own clock when the connection's model last changed. */
export function App({ connection, version }: { connection: Connection; version: number }) {
  const { model, status } = connection;
  const [chosen, choose] = useState('');
  const [wanted, want] = useState('');
  const registry = model.registries.find(({ name }) => name === chosen) ?? model.registries[0];
  const nowMs = model.nowMs(version);
  useEffect(() => {
    document.documentElement.dataset.connection = status === 'live' || status === 'connecting' ? 'live' : 'lost';
  }, [status]);
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header>
        <p class="name">Owner tokens</p>
        <Registries registries={model.registries} chosen={registry?.name} onChoose={choose} />
        <p class={status === 'live' ? 'connection' : 'connection lost'}>
          <span aria-hidden="true">{status === 'live' ? '●' : '○'}</span> {STATUS_WORDS[status]}
        </p>
      </header>
      <main id="main" tabIndex={-1}>
        <h1>Owner tokens</h1>
        <p class="news" role="status">
          {model.news}
        </p>
        {registry ? (
          <div class="live">
            <Figures model={model} registry={registry} nowMs={nowMs} />
            <Rejected registry={registry} nowMs={nowMs} />
            <Failing registry={registry} nowMs={nowMs} />
            <Find wanted={wanted} nowMs={nowMs} registry={registry.name} onWant={want} accessKeys={model.accessKeys} />
            <Lanes
              model={model}
              registry={registry}
              wanted={wanted}
              version={version}
              still={status !== 'live'}
              onWant={want}
            />
          </div>
        ) : (
          <p>{status === 'live' ? '' : `${STATUS_WORDS[status]} …`}</p>
        )}
      </main>
      {model.replica && registry && <Footer replica={model.replica} registry={registry} nowMs={nowMs} />}
    </>
  );
}

function Registries(props: {
  registries: readonly RegistryView[];
  chosen: string | undefined;
  onChoose: (name: string) => void;
}) {
  const { registries, chosen, onChoose } = props;
  if (registries.length < 2) return <span class="fill" />;
  return (
    <fieldset class="switch fill">
      <legend class="hidden">Registry</legend>
      {registries.map(({ name, stats: { pauses } }) => (
        <button key={name} type="button" aria-pressed={name === chosen} onClick={() => onChoose(name)}>
          {name}
          {(pauses.owners > 0 || pauses.rejected || pauses.client || pauses.endpoint) && (
            <span role="img" aria-label=", fails">
              {' '}
              ▲
            </span>
          )}
        </button>
      ))}
    </fieldset>
  );
}

function Failing({ registry: { failing, stats }, nowMs }: { registry: RegistryView; nowMs: number }) {
  const { owners: all, rejected } = stats.pauses;
  const none = rejected ? 'No token request fails.' : 'None: no owner fails.';
  return (
    <section aria-labelledby="failing-heading">
      <h2 id="failing-heading">Owners that need attention</h2>
      {failing.length === 0 ? (
        <p class="empty">{stats.owners === 0 ? 'No owner has asked for a token yet.' : none}</p>
      ) : (
        <OwnersTable label="Owners that need attention, worst first" owners={failing} nowMs={nowMs} />
      )}
      {all > failing.length && (
        <p class="hint">
          The first {failing.length} of {countWord(all)}. The search finds the others.
        </p>
      )}
    </section>
  );
}

/** An outage of the API is one fact, however many owners it concerns. Not on the page while there is none. */
function Rejected({ registry: { rejected, stats }, nowMs }: { registry: RegistryView; nowMs: number }) {
  const stat = stats.pauses.rejected;
  if (!stat) return null;
  return (
    <section aria-labelledby="rejected-heading">
      <h2 id="rejected-heading">The API rejects the tokens of {plural(stat.owners, 'owner')}</h2>
      <p class="hint">
        New tokens too: these owners have lost their access to the API, or, if they are many, the API itself fails.
        Calls still get a token.
      </p>
      <OwnersTable label="Owners whose tokens the API rejects" owners={rejected} nowMs={nowMs} />
      {stat.owners > rejected.length && (
        <p class="hint">
          {countWord(rejected.length)} of {countWord(stat.owners)}. The search finds the others.
        </p>
      )}
    </section>
  );
}

function Footer({ replica, registry, nowMs }: { replica: Replica; registry: RegistryView; nowMs: number }) {
  const { host, pid, startedAtMs, version, node } = replica;
  return (
    <footer>
      <p>
        Replica <strong>{host}</strong>, process {pid}, started {timeWord(startedAtMs)} (
        {spanWord(Math.max(1000, nowMs - startedAtMs))} ago). owner-token-registry {version}, Node {node}.
      </p>
      <p>{sharingWord(registry)}</p>
    </footer>
  );
}

function sharingWord({ fleet }: RegistryView): string {
  if (!fleet) return 'No sharing between replicas is configured for this page.';
  const { sharing, replicas, shared, leader, fallback, mismatched } = fleet;
  if (!sharing) return `Redis is unavailable: this replica requests its own tokens (${fallback} so far).`;
  const others = mismatched > 0 ? ` ${plural(mismatched, 'replica')} with other keys cannot share.` : '';
  return (
    `Shares tokens with ${plural(Math.max(0, replicas - 1), 'other replica')}: ${shared} received, ${leader} requested for all, ` +
    `${fallback} requested alone.${others}`
  );
}
