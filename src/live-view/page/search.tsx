import { useEffect, useState } from 'preact/hooks';
import type { Lane } from '../../page-engine/data.ts';
import { countWord } from '../../page-engine/words.ts';
import type { Found as FoundAnywhere, FoundOwner, Replica, Search } from '../frames.ts';
import { search } from './connection.ts';
import { lanesOf } from './model.ts';
import { OwnersTable } from './owners-table.tsx';

export const TYPING_MS = 250;
const REFRESH_MS = 3_000;

interface Found {
  readonly owners: readonly FoundOwner[];
  readonly total: number;
  readonly replica: FoundAnywhere['replica'];
  /** In the window of the page. */
  readonly lanes: readonly Lane[];
}

/** A text says what went wrong; undefined: there is no answer yet. */
export type Result = Found | string | undefined;

async function ask(wanted: Search, registry: string): Promise<Result> {
  try {
    const { owners, total, replica, lanes = [] } = await search(wanted);
    return { owners: owners[registry] ?? [], total: total[registry] ?? 0, replica, lanes: lanesOf(lanes) };
  } catch (error) {
    return error instanceof Error ? error.message : 'The search failed.';
  }
}

/** What is found, renewed from time to time; nothing while nothing is wanted. */
export function useSearch(wanted: Search | undefined, registry: string, afterMs = 0): Result {
  const [result, setResult] = useState<Result>();
  const key = JSON.stringify(wanted);
  useEffect(() => {
    setResult(undefined);
    if (key === undefined) return undefined;
    let isWanted = true;
    const look = () => {
      void ask(JSON.parse(key) as Search, registry).then((found) => {
        if (!isWanted) return;
        setResult(found);
        timer = setTimeout(look, REFRESH_MS);
      });
    };
    let timer = setTimeout(look, afterMs);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [key, registry]);
  return result;
}

/** Finds owners by label or fingerprint, and one by its access key where the host allows that. */
export function Find(props: {
  registry: string;
  wanted: string;
  /** What is found by that text. */
  named: Result;
  onWant: (text: string) => void;
  accessKeys: boolean;
  replica: Replica | undefined;
  nowMs: number;
}) {
  const { registry, wanted, named, onWant, accessKeys, replica, nowMs } = props;
  const [ofKey, setOfKey] = useState<Result>();
  const text = wanted.trim();
  const lookUp = (accessKey: string) => {
    onWant('');
    void ask({ accessKey }, registry).then(setOfKey);
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
      <Results result={text === '' ? ofKey : named} isAsked={text !== ''} replica={replica} nowMs={nowMs} />
    </section>
  );
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

function Results(props: { result: Result; isAsked: boolean; replica: Replica | undefined; nowMs: number }) {
  const { result, isAsked, replica, nowMs } = props;
  if (result === undefined) return isAsked ? <p class="empty">Searching …</p> : null;
  if (typeof result === 'string') return <p class="problem">{result}</p>;
  const { host, pid, id } = result.replica;
  return (
    <>
      {result.owners.length === 0 ? (
        <p class="empty">This replica knows no owner of such a name: it has not been asked for one.</p>
      ) : (
        <OwnersTable label="Owners found" owners={result.owners} nowMs={nowMs} />
      )}
      <FoundHints result={result} />
      {id !== replica?.id && (
        <p class="hint">
          Another replica has answered: {host}, process {pid}.
        </p>
      )}
    </>
  );
}

/** Whether there are more than are shown. */
export function FoundHints({ result: { owners, total } }: { result: Found }) {
  if (total <= owners.length) return null;
  return (
    <p class="hint">
      {countWord(owners.length)} of {countWord(total)}. Search for a longer part of a name to see others.
    </p>
  );
}
