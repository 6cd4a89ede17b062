import { useEffect, useState } from 'preact/hooks';
import { queryOf } from '../../page-engine/connection.ts';
import { useSnapshot, useTick } from '../../page-engine/hooks.ts';
import { windowOf } from '../../page-engine/lanes-section.tsx';
import { timeOf } from '../../page-engine/page-clock.ts';
import { ConnectionStatus, STATUS_WORDS, Switch } from '../../page-engine/parts.tsx';
import { spanWord, timeWord } from '../../page-engine/words.ts';
import type { RegistryView, Replica } from '../frames.ts';
import { Causes } from './causes.tsx';
import type { LiveConnection } from './connection.ts';
import { Figures } from './figures.tsx';
import { Lanes, MAX_WINDOW_MS } from './lanes.tsx';
import { Find, TYPING_MS, useSearch } from './search.tsx';
import { useAddress } from './use-address.ts';
import { Verdict } from './verdict.tsx';

const TIMES = [
  ['local', 'Local time'],
  ['utc', 'UTC'],
] as const;

export function App({ connection }: { connection: LiveConnection }) {
  const { model, status: connected } = useSnapshot(connection);
  const [address, setAddress] = useAddress();
  const [typed, setTyped] = useState('');
  const wanted = address.owner ?? typed;
  const want = (text: string) => {
    setTyped(text);
    if (address.owner !== undefined) setAddress({ owner: undefined });
  };
  const registry = model?.registries.find(({ name }) => name === address.registry) ?? model?.registries[0];
  useTick(1_000);
  const nowMs = model ? timeOf(model, performance.now()) : 0;
  const status = registry?.status && { ...registry.status, atMs: nowMs };
  const window = windowOf(Number(address.window) * 1000, Number(address.until), MAX_WINDOW_MS);
  const view = { registry: address.registry, ...window };
  const text = wanted.trim();
  const named = useSearch(text === '' ? undefined : { text, view: queryOf(view) }, registry?.name ?? '', TYPING_MS);
  // Before anything below is rendered, because `timeWord` reads it.
  document.documentElement.dataset.time = address.time === 'utc' ? 'utc' : 'local';
  useEffect(() => {
    const { request } = address;
    connection.look({ ...view, request: request === undefined ? undefined : Number(request) });
  }, [address.registry, window.windowMs, window.untilMs, address.request]);
  return (
    <>
      <button type="button" class="skip" onClick={skip}>
        Skip to content
      </button>
      <header>
        <p class="name">Owner tokens</p>
        <Registries
          registries={model?.registries ?? []}
          chosen={registry?.name}
          onChoose={(name) => setAddress({ registry: name })}
        />
        <Switch
          legend="Times in"
          value={address.time === 'utc' ? 'utc' : 'local'}
          options={TIMES}
          onChange={(time) => setAddress({ time: time === 'utc' ? time : undefined })}
        />
        <ConnectionStatus status={connected} />
      </header>
      <main id="main" tabIndex={-1}>
        <h1>Owner tokens</h1>
        <p class="news" role="status">
          {model?.news}
        </p>
        {model && registry && status ? (
          <div class="live">
            <Verdict status={status} stats={registry.stats} dashboardUrl={model.page.dashboardUrl} />
            <Figures registry={registry} status={status} page={model.page} />
            <Find
              wanted={wanted}
              named={named}
              nowMs={nowMs}
              registry={registry.name}
              onWant={want}
              accessKeys={model.page.accessKeys}
              replica={model.replica}
            />
            <Causes
              status={status}
              rates={registry.rates}
              page={model.page}
              open={address.cause}
              onOpen={(cause) => setAddress({ cause })}
            />
            <Lanes model={model} found={named} window={window} address={address} onAddress={setAddress} />
          </div>
        ) : (
          <p>{connected === 'live' ? 'Counting the owners …' : `${STATUS_WORDS[connected]} …`}</p>
        )}
      </main>
      {model && registry && <Footer replica={model.replica} registry={registry} nowMs={nowMs} />}
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
