import { useState } from 'preact/hooks';
import { kindOf } from '../../page-engine/data.ts';
import { LanesSection, type Window } from '../../page-engine/lanes-section.tsx';
import { MARK_WORDS, spanWord, timeWord } from '../../page-engine/words.ts';
import type { Address, Changes } from './address.ts';
import type { Model } from './model.ts';
import type { Result } from './search.tsx';
import { hashWith } from './use-address.ts';

/** As long as requests are kept. */
export const MAX_WINDOW_MS = 900_000;

export function Lanes(props: {
  model: Model;
  /** What a search has found, instead of the owners with the most trouble. */
  found: Result;
  window: Window;
  address: Address;
  onAddress: (changes: Changes) => void;
}) {
  const { model, found, window, address, onAddress } = props;
  const [asTable, setAsTable] = useState(false);
  const shown = typeof found === 'object' ? { ...model, lanes: found.lanes, matching: found.lanes.length } : model;
  return (
    <LanesSection
      title="Token requests"
      model={shown}
      lanes={shown.lanes}
      window={window}
      mostMs={MAX_WINDOW_MS}
      asTable={asTable}
      onTable={setAsTable}
      onWindow={(to) =>
        onAddress({ window: `${(to ?? { windowMs: 60_000 }).windowMs / 1000}`, until: to?.untilMs?.toString() })
      }
      selected={Number(address.request)}
      onSelect={(id) => onAddress({ request: `${id}` })}
      hrefOf={(owner) => hashWith({ owner })}
      empty="No token requests since then."
    >
      <p class="hint">Complete since {timeWord(model.completeSinceMs)}.</p>
      <Selected model={shown} />
    </LanesSection>
  );
}

/** The request whose mark was clicked. The table of owners says the same by keyboard. */
function Selected({ model: { lanes, request } }: { model: Model }) {
  const lane = lanes.find(({ id }) => id === request?.owner);
  const mark = lane?.marks.find(([id]) => id === request?.id);
  if (!request || !mark) return null;
  const { owner, reason, atMs, tookMs, code, status } = request;
  const outcome = [MARK_WORDS[kindOf(mark)], code, status, tookMs !== undefined && `after ${spanWord(tookMs)}`];
  return (
    <p class="selected">
      <a href={hashWith({ owner })}>
        <bdi>{lane?.name}</bdi>
      </a>{' '}
      at {timeWord(atMs)}: requested because its token was {reason}; {outcome.filter(Boolean).join(', ')}
    </p>
  );
}
