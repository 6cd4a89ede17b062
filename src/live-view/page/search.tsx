import { useEffect, useState } from 'preact/hooks';
import type { OwnerReport } from '../../registry/reports.ts';
import { MAX_FOUND, type Search } from '../frames.ts';
import { search } from './connection.ts';
import { OwnersTable } from './owners-table.tsx';

const TYPING_MS = 250;
const REFRESH_MS = 3_000;

type Result = readonly OwnerReport[] | string | undefined;

/** Finds owners by label or fingerprint, and one by its access key where the host allows that. */
export function Find(props: {
  registry: string;
  wanted: string;
  onWant: (text: string) => void;
  accessKeys: boolean;
  nowMs: number;
}) {
  const { registry, wanted, onWant, accessKeys, nowMs } = props;
  const [result, setResult] = useState<Result>();
  const text = wanted.trim();
  useEffect(() => {
    setResult(undefined);
    return text === '' ? undefined : repeatedly(() => ask({ text }, registry), setResult);
  }, [text, registry]);
  const lookUp = (accessKey: string) => {
    onWant('');
    void ask({ accessKey }, registry).then(setResult);
  };
  return (
    <section aria-labelledby="find-heading">
      <h2 id="find-heading">Find an owner</h2>
      <div class="finds">
        <label>
          <span class="hint">Label or fingerprint, as in the logs</span>
          <input type="search" value={wanted} onInput={(event) => onWant(event.currentTarget.value)} />
        </label>
        {accessKeys && <KeyForm onSend={lookUp} />}
      </div>
      <Results result={result} isAsked={text !== ''} nowMs={nowMs} />
    </section>
  );
}

async function ask(wanted: Search, registry: string): Promise<Result> {
  try {
    return (await search(wanted)).owners[registry] ?? [];
  } catch (error) {
    return error instanceof Error ? error.message : 'The search failed.';
  }
}

/** Asks when typing has paused, and again from time to time. Returns how to stop. */
function repeatedly(ask: () => Promise<Result>, then: (result: Result) => void): () => void {
  let isWanted = true;
  const look = () => {
    void ask().then((result) => {
      if (!isWanted) return;
      then(result);
      timer = setTimeout(look, REFRESH_MS);
    });
  };
  let timer = setTimeout(look, TYPING_MS);
  return () => {
    isWanted = false;
    clearTimeout(timer);
  };
}

/** The key leaves the field as soon as it is sent, and is kept nowhere. */
function KeyForm({ onSend }: { onSend: (accessKey: string) => void }) {
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const field = event.currentTarget.elements.namedItem('key') as HTMLInputElement;
        if (field.value !== '') onSend(field.value);
        field.value = '';
      }}
    >
      <label>
        <span class="hint">Access key: sent to this server, kept nowhere</span>
        <input name="key" type="password" autoComplete="off" />
      </label>
      <button type="submit">Look up</button>
    </form>
  );
}

function Results({ result, isAsked, nowMs }: { result: Result; isAsked: boolean; nowMs: number }) {
  if (result === undefined) return isAsked ? <p class="empty">Searching …</p> : null;
  if (typeof result === 'string') return <p class="problem">{result}</p>;
  if (result.length === 0) return <p class="empty">No owner of this registry has such a name.</p>;
  return (
    <>
      <OwnersTable label="Owners found" owners={result} nowMs={nowMs} />
      {result.length === MAX_FOUND && <p class="hint">The first {MAX_FOUND}. Type more to see others.</p>}
    </>
  );
}
