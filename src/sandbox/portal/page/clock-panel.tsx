import { useTick } from '../../../page-engine/hooks.ts';
import { timeOf } from '../../../page-engine/page-clock.ts';
import { spanWord, timeWord } from '../../../page-engine/words.ts';
import { send } from './api.ts';
import type { Model } from './model.ts';
import { Action } from './parts.tsx';

const STEPS_MS = [60_000, 600_000, 3_600_000];

/** Asks first, because a reset cannot be undone. */
async function reset(): Promise<string | undefined> {
  const isMeant = confirm('Discard owners, keys, faults, settings and requests?');
  return isMeant ? send('The sandbox was reset.', 'POST', '/api/reset') : undefined;
}

/** The sandbox's clock, and the reset. */
export function ClockPanel({ model }: { model: Model }) {
  const nowMs = timeOf(model, useTick(1000));
  const { frozen } = model.clock;
  return (
    <footer>
      <div class="row">
        <p>
          Sandbox time <strong class="number">{timeWord(nowMs)}</strong>
          {frozen && ', frozen'}
        </p>
        <Action act={() => send(frozen ? 'Time runs.' : 'Time is frozen.', 'POST', '/api/clock', { frozen: !frozen })}>
          {frozen ? 'Resume time' : 'Freeze time'}
        </Action>
        {STEPS_MS.map((ms) => (
          <Action
            key={ms}
            label={`Advance time by ${spanWord(ms)}`}
            act={() => send(`Time was advanced by ${spanWord(ms)}.`, 'POST', '/api/clock', { advanceMs: ms })}
          >
            +{spanWord(ms)}
          </Action>
        ))}
      </div>
      <div class="row">
        <Action act={() => send('All requests are cleared.', 'DELETE', '/api/requests')}>Clear requests</Action>
        <Action look="danger" act={reset}>
          Reset sandbox
        </Action>
      </div>
    </footer>
  );
}
