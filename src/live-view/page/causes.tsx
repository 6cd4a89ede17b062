import { countWord, plural, sentence, timeWord } from '../../picture/words.ts';
import { causePhrase } from '../sentence.ts';
import type { Cause, Facts } from '../status.ts';
import { OwnersTable, whenWord } from './owners-table.tsx';
import { FoundHints, useSearch } from './search.tsx';
import { hashWith } from './use-address.ts';
import { adviceWord } from './verdict.tsx';

/** Up to this many owners of the first cause are shown without a click. */
const FEW = 20;

/** Causes before owners. `open`: the cause that the address names; empty: none. */
export function Causes(props: {
  status: Facts;
  nowMs: number;
  open: string | undefined;
  onOpen: (cause: string) => void;
}) {
  const { status, nowMs, onOpen } = props;
  const { registry, causes, known } = status;
  const [first] = causes;
  const open = props.open ?? (first && first.owners <= FEW ? first.id : '');
  return (
    <section aria-labelledby="causes-heading">
      <h2 id="causes-heading">Causes</h2>
      {causes.length === 0 && (
        <p class="empty">{known === 0 ? 'No owner has asked for a token yet.' : 'None: no owner fails.'}</p>
      )}
      {causes.map((cause) => (
        <CauseItem
          key={cause.id}
          cause={cause}
          registry={registry}
          isOpen={cause.id === open}
          nowMs={nowMs}
          onToggle={() => onOpen(cause.id === open ? '' : cause.id)}
        />
      ))}
    </section>
  );
}

const SCOPES = {
  owner: '',
  client: 'stops all requests of this client',
  endpoint: 'stops all requests',
  queue: '',
} as const;

function CauseItem(props: { cause: Cause; registry: string; isOpen: boolean; nowMs: number; onToggle: () => void }) {
  const { cause, registry, isOpen, nowMs, onToggle } = props;
  const { id, code, message, scope, sinceMs, owners, unserved, retryAtMs, probing, runbook } = cause;
  const next = probing ? 'attempts are in flight' : `next attempt ${whenWord(retryAtMs, nowMs)}`;
  const counts = `${plural(owners, 'owner')}, ${countWord(unserved)} without service`;
  return (
    <div class={unserved > 0 ? 'cause alarm' : 'cause'}>
      <h3>
        <button type="button" class="opener" aria-expanded={isOpen} aria-controls={`cause-${id}`} onClick={onToggle}>
          <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span> {sentence(causePhrase(cause))} <code>{code}</code>
        </button>
      </h3>
      <p>
        <strong>{counts}</strong>, since {timeWord(sinceMs)}; {[SCOPES[scope], next].filter(Boolean).join('; ')}.
      </p>
      <p class="hint">
        {sentence(message)}. {adviceWord(cause)} {runbook && <a href={runbook}>Runbook</a>}{' '}
        <a href={hashWith({ cause: id })}>Link to this cause</a>
      </p>
      <div id={`cause-${id}`}>{isOpen && <CauseRows cause={cause} registry={registry} nowMs={nowMs} />}</div>
    </div>
  );
}

function CauseRows({ cause, registry, nowMs }: { cause: Cause; registry: string; nowMs: number }) {
  const result = useSearch({ cause: cause.id }, registry);
  if (result === undefined) return <p class="empty">Looking for its owners …</p>;
  if (typeof result === 'string') return <p class="problem">{result}</p>;
  return (
    <>
      <OwnersTable label={`Owners: ${cause.id}`} owners={result.owners} nowMs={nowMs} />
      <FoundHints result={result} />
    </>
  );
}
