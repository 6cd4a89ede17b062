import { countWord, plural, sentence, spanWord, timeWord } from '../../page-engine/words.ts';
import type { PageOptions, Rates } from '../frames.ts';
import { nextWord, reasonWord, sinceWord, slowWord } from '../sentence.ts';
import type { Cause, Facts } from '../status.ts';
import { Runbook, rateWord } from './figures.tsx';
import { OwnersTable } from './owners-table.tsx';
import { FoundHints, useSearch } from './search.tsx';
import { hashWith } from './use-address.ts';
import { adviceWord } from './verdict.tsx';

/** Up to this many owners of the first cause are shown without a click. */
const FEW = 20;

/** Causes before owners, those with the same reason together. `open`: the cause that the address names; empty: none. */
export function Causes(props: {
  status: Facts;
  rates: Rates | undefined;
  page: PageOptions;
  open: string | undefined;
  onOpen: (cause: string) => void;
}) {
  const { status, rates, page, onOpen } = props;
  const { causes, known } = status;
  const [first] = causes;
  const open = props.open ?? (first && first.owners <= FEW ? first.id : '');
  const groups = new Map<string, Cause[]>();
  for (const cause of causes) groups.set(cause.code, [...(groups.get(cause.code) ?? []), cause]);
  return (
    <section aria-labelledby="causes-heading">
      <h2 id="causes-heading">Causes</h2>
      <Slow status={status} rates={rates} page={page} />
      {causes.length === 0 && (
        <p class="empty">{known === 0 ? 'No owner has asked for a token yet.' : 'None: no owner fails.'}</p>
      )}
      {[...groups].map(([code, group]) => (
        <Reason key={code} causes={group} status={status} open={open} onOpen={onOpen} />
      ))}
    </section>
  );
}

/** Calls get their tokens, but late: nobody fails, unless callers give up. */
function Slow({ status, rates, page }: { status: Facts; rates: Rates | undefined; page: PageOptions }) {
  const { slowService: slow } = status;
  const abandoned = rates?.abandoned ?? 0;
  if (!slow && abandoned === 0) return null;
  return (
    <div class="cause warning">
      <h3>{slow ? 'Slow token service' : 'Callers give up'}</h3>
      <p>
        {slow && `${slowWord(slow, status, timeWord)}: now about ${spanWord(slow.latencyMs)}. `}
        {abandoned > 0 && `Callers give up ${rateWord(abandoned)} calls a second that have waited for over a second. `}
        <Runbook page={page} alert={slow ? 'ownertokenserviceslow' : 'ownertokencallersgaveup'} />
      </p>
    </div>
  );
}

const SCOPES = {
  owner: '',
  client: 'stops all requests of this client',
  endpoint: 'stops all requests',
  queue: '',
} as const;

/** One reason: what it means and what to do, once, and its causes by HTTP status. */
function Reason(props: { causes: readonly Cause[]; status: Facts; open: string; onOpen: (cause: string) => void }) {
  const { causes, status, open, onOpen } = props;
  const [{ code, runbook }] = causes as [Cause];
  const isOpen = causes.some(({ id }) => id === open);
  return (
    <div class={causes.some(({ unserved }) => unserved > 0) ? 'cause alarm' : 'cause'}>
      <h3>
        {sentence(reasonWord(code))} <code>{code}</code>
      </h3>
      {isOpen && (
        <p class="hint">
          {adviceWord(causes[0] as Cause)} {runbook && <a href={runbook}>Runbook</a>}
        </p>
      )}
      {causes.map((cause) => (
        <CauseItem
          key={cause.id}
          cause={cause}
          status={status}
          isOpen={cause.id === open}
          onToggle={() => onOpen(cause.id === open ? '' : cause.id)}
        />
      ))}
    </div>
  );
}

function CauseItem(props: { cause: Cause; status: Facts; isOpen: boolean; onToggle: () => void }) {
  const { cause, status, isOpen, onToggle } = props;
  const { id, message, scope, sinceMs, owners, unserved } = cause;
  const facts = [sinceWord(sinceMs, status, timeWord), SCOPES[scope], nextWord(cause, status, timeWord)];
  return (
    <>
      <p>
        <button type="button" class="opener" aria-expanded={isOpen} aria-controls={`cause-${id}`} onClick={onToggle}>
          <span aria-hidden="true">{isOpen ? '▾' : '▸'}</span> {cause.status} {plural(owners, 'owner')},{' '}
          {countWord(unserved)} without service
        </button>
        , {facts.filter(Boolean).join('; ')}. <a href={hashWith({ cause: id })}>Link to this cause</a>
      </p>
      <div id={`cause-${id}`}>
        {isOpen && (
          <>
            <p class="hint">{sentence(message)}.</p>
            <CauseRows cause={cause} registry={status.registry} nowMs={status.atMs} />
          </>
        )}
      </div>
    </>
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
