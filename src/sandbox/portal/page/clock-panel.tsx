import { spanWord, timeWord } from '../../../picture/words.ts';
import { ask } from './api.ts';
import { type Model, timeOf } from './model.ts';
import { Action, Confirm, useTick } from './parts.tsx';

const STEPS_MS = [60_000, 600_000, 3_600_000];

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
        <Action
          act={async () => {
            await ask('POST', '/api/clock', { frozen: !frozen });
            return frozen ? 'Time runs.' : 'Time is frozen.';
          }}
        >
          {frozen ? 'Resume time' : 'Freeze time'}
        </Action>
        {STEPS_MS.map((ms) => (
          <Action
            key={ms}
            label={`Advance time by ${spanWord(ms)}`}
            act={async () => {
              await ask('POST', '/api/clock', { advanceMs: ms });
              return `Time was advanced by ${spanWord(ms)}.`;
            }}
          >
            +{spanWord(ms)}
          </Action>
        ))}
      </div>
      <div class="row">
        <Action
          act={async () => {
            await ask('DELETE', '/api/requests');
            return 'All requests are cleared.';
          }}
        >
          Clear requests
        </Action>
        <Confirm
          question="Discard owners, keys, faults, settings and requests?"
          act={async () => {
            await ask('POST', '/api/reset');
            return 'The sandbox was reset.';
          }}
        >
          Reset sandbox
        </Confirm>
      </div>
    </footer>
  );
}
