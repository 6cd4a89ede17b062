import { useEffect, useState } from 'preact/hooks';
import { Switch } from '../../picture/parts.tsx';
import { spanWord, timeWord } from '../../picture/words.ts';
import type { RegistryView, Replica } from '../frames.ts';
import { Causes } from './causes.tsx';
import type { Connection, Status } from './connection.ts';
import { Figures } from './figures.tsx';
import { Lanes } from './lanes.tsx';
import { Find } from './search.tsx';
import { useAddress } from './use-address.ts';
import { Verdict } from './verdict.tsx';

const STATUS_WORDS: Readonly<Record<Status, string>> = {
  connecting: 'Connecting',
  live: 'Connected',
  silent: 'No data yet. A proxy probably buffers the stream: see “Behind a proxy” in the docs',
  lost: 'Connection lost, trying again',
  refused: 'You may no longer see this page: sign in again',
};

const TIMES = [
  ['local', 'Local time'],
  ['utc', 'UTC'],
] as const;

/** @param version the page's own clock when the connection's model last changed. */
export function App({ connection, version }: { connection: Connection; version: number }) {
  const { model, status } = connection;
  const [address, setAddress] = useAddress();
  const [typed, setTyped] = useState('');
  const wanted = address.owner ?? typed;
  const want = (text: string) => {
    setTyped(text);
    if (address.owner !== undefined) setAddress({ owner: undefined });
  };
  const registry = model.registries.find(({ name }) => name === address.registry) ?? model.registries[0];
  const nowMs = model.nowMs(version);
  // Before anything below is rendered, because `timeWord` reads it.
  document.documentElement.dataset.time = address.time === 'utc' ? 'utc' : 'local';
  useEffect(() => {
    document.documentElement.dataset.connection = status === 'live' || status === 'connecting' ? 'live' : 'lost';
  }, [status]);
  return (
    <>
      <button type="button" class="skip" onClick={skip}>
        Skip to content
      </button>
      <header>
        <p class="name">Owner tokens</p>
        <Registries
          registries={model.registries}
          chosen={registry?.name}
          onChoose={(name) => setAddress({ registry: name })}
        />
        <Switch
          legend="Times in"
          value={address.time === 'utc' ? 'utc' : 'local'}
          options={TIMES}
          onChange={(time) => setAddress({ time: time === 'utc' ? time : undefined })}
        />
        <p class={status === 'live' ? 'connection' : 'connection lost'}>
          <span aria-hidden="true">{status === 'live' ? '●' : '○'}</span> {STATUS_WORDS[status]}
        </p>
      </header>
      <main id="main" tabIndex={-1}>
        <h1>Owner tokens</h1>
        <p class="news" role="status">
          {model.news}
        </p>
        {registry?.status ? (
          <div class="live">
            <Verdict status={registry.status} dashboardUrl={model.page?.dashboardUrl} />
            <Figures model={model} registry={registry} nowMs={nowMs} />
            <Find
              wanted={wanted}
              nowMs={nowMs}
              registry={registry.name}
              onWant={want}
              accessKeys={model.page?.accessKeys === true}
              replica={model.replica}
            />
            <Causes
              status={registry.status}
              nowMs={nowMs}
              open={address.cause}
              onOpen={(cause) => setAddress({ cause })}
            />
            <Lanes
              model={model}
              registry={registry}
              wanted={wanted}
              version={version}
              still={status !== 'live'}
              address={address}
              onAddress={setAddress}
            />
          </div>
        ) : (
          <p>{status === 'live' ? 'Counting the owners …' : `${STATUS_WORDS[status]} …`}</p>
        )}
      </main>
      {model.replica && registry && <Footer replica={model.replica} registry={registry} nowMs={nowMs} />}
    </>
  );
}

/** No link, because the part of the address after `#` says what is shown. */
const skip = () => document.getElementById('main')?.focus();

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
      {registries.map(({ name, status }) => (
        <button key={name} type="button" aria-pressed={name === chosen} onClick={() => onChoose(name)}>
          {name}
          {status && status.causes.length > 0 && (
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

function Footer({ replica, registry, nowMs }: { replica: Replica; registry: RegistryView; nowMs: number }) {
  const { host, pid, startedAtMs, version, node } = replica;
  const { replica: name, replicas } = registry.status ?? {};
  return (
    <footer>
      <p>
        Replica <strong>{name ?? host}</strong>
        {replicas !== undefined && replicas > 1 && `, one of ${replicas}`}, process {pid}
        {name !== undefined && ` on ${host}`}, started {timeWord(startedAtMs)} (
        {spanWord(Math.max(1000, nowMs - startedAtMs))} ago). owner-token-registry {version}, Node {node}.
      </p>
      {!registry.fleet && <p>No sharing between replicas is configured for this page.</p>}
    </footer>
  );
}
