import { useState } from 'preact/hooks';
import type { OwnerView } from '../../api-types.ts';
import { ask } from './api.ts';
import { TokenState } from './lanes-table.tsx';
import { type Model, timeOf } from './model.ts';
import { OwnerDetail } from './owner-detail.tsx';
import { Field, Scroll, State, useAction, useTick } from './parts.tsx';
import { countWord, plural } from './words.ts';

const SHOWN = 300;

/** The owners, their access keys, and what they hold. */
export function Owners({ model }: { model: Model }) {
  const [search, setSearch] = useState('');
  const [chosen, setChosen] = useState<string | undefined>();
  const nowMs = timeOf(model, useTick(1000));
  const wanted = search.trim().toLowerCase();
  const matching = model.owners.filter(
    ({ id, name }) => id.toLowerCase().includes(wanted) || name.toLowerCase().includes(wanted),
  );
  const shown = matching.slice(0, SHOWN);
  const owner = model.owners.find(({ id }) => id === chosen);
  return (
    <div class="two">
      <section aria-labelledby="owners-heading">
        <div class="row heading">
          <h2 id="owners-heading">{plural(matching.length, 'owner')}</h2>
          <label class="inline">
            <span>Search</span>
            <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
          </label>
        </div>
        <Scroll label="Owners" class="tall">
          <table>
            <thead>
              <tr>
                <th scope="col">Owner</th>
                <th scope="col">Access key</th>
                <th scope="col">Token</th>
                <th scope="col" class="number">
                  Requests
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((each) => (
                <OwnerRow
                  key={each.id}
                  owner={each}
                  model={model}
                  nowMs={nowMs}
                  chosen={each.id === chosen}
                  onChoose={setChosen}
                />
              ))}
            </tbody>
          </table>
          {shown.length === 0 && <p class="hint empty">No such owner.</p>}
        </Scroll>
        {matching.length > shown.length && <p class="hint">The first {SHOWN} are shown. Search to see others.</p>}
      </section>
      <div>
        {owner && <OwnerDetail key={owner.id} {...{ owner, model, nowMs }} onClose={() => setChosen(undefined)} />}
        <MoreOwners model={model} onAdded={setChosen} />
      </div>
    </div>
  );
}

function OwnerRow(props: {
  owner: OwnerView;
  model: Model;
  nowMs: number;
  chosen: boolean;
  onChoose: (id: string | undefined) => void;
}) {
  const { owner, model, nowMs, chosen, onChoose } = props;
  const lane = model.lanes.get(owner.id);
  const usable = owner.enabled && owner.accessKeys.some(({ enabled, revoked }) => enabled && !revoked);
  return (
    <tr class={chosen ? 'chosen' : undefined}>
      <th scope="row">
        <button
          type="button"
          class="link"
          id={`row-of-${owner.id}`}
          aria-pressed={chosen}
          onClick={() => onChoose(chosen ? undefined : owner.id)}
        >
          {owner.id}
        </button>
        <span class="hint block">{owner.name}</span>
      </th>
      <td>
        <State good={usable}>{keyWord(owner)}</State>
      </td>
      <td>
        <TokenState lane={lane} nowMs={nowMs} />
      </td>
      <td class="number">{countWord(lane?.requests.length ?? 0)}</td>
    </tr>
  );
}

function keyWord({ enabled, accessKeys }: OwnerView): string {
  if (!enabled) return 'owner disabled';
  if (accessKeys.length === 0) return 'none';
  if (accessKeys.some((key) => key.enabled && !key.revoked)) return 'good';
  return accessKeys.every(({ revoked }) => revoked) ? 'revoked' : 'disabled';
}

function MoreOwners({ model, onAdded }: { model: Model; onAdded: (id: string) => void }) {
  const [name, setName] = useState('');
  const [count, setCount] = useState('200');
  const [busy, run] = useAction();
  const add = async () => {
    const owner = await ask<OwnerView>('POST', '/api/owners', name.trim() === '' ? {} : { name: name.trim() });
    setName('');
    onAdded(owner.id);
    return `${owner.id} was added, with an access key.`;
  };
  const seed = async () => {
    const { owners } = await ask<{ owners: number }>('POST', '/api/seed', { owners: Number(count) });
    return `There are ${plural(owners, 'owner')}.`;
  };
  const submit = (action: () => Promise<string>) => (event: Event) => {
    event.preventDefault();
    run(action);
  };
  return (
    <section aria-labelledby="more-heading">
      <h2 id="more-heading">More owners</h2>
      <form class="row end" onSubmit={submit(add)}>
        <Field label="Name">
          {(id) => <input id={id} type="text" value={name} onInput={(event) => setName(event.currentTarget.value)} />}
        </Field>
        <button type="submit" aria-busy={busy}>
          Add owner
        </button>
      </form>
      <form class="row end" onSubmit={submit(seed)}>
        <Field label={`At least so many (now ${countWord(model.owners.length)})`}>
          {(id) => (
            <input
              id={id}
              type="text"
              inputMode="numeric"
              value={count}
              onInput={(event) => setCount(event.currentTarget.value)}
            />
          )}
        </Field>
        <button type="submit" aria-busy={busy}>
          Seed
        </button>
      </form>
    </section>
  );
}
