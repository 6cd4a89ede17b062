import { ask } from './api.ts';
import { type Model, timeOf } from './model.ts';
import { Action, useTick } from './parts.tsx';
import { spanWord, timeWord } from './words.ts';

const STEPS_MS = [60_000, 600_000, 3_600_000];

/** The sandbox's time, which everything obeys, and the way back to the start. */
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
            return frozen ? 'Time runs on.' : 'Time is frozen.';
          }}
        >
          {frozen ? 'Let time run' : 'Freeze time'}
        </Action>
        {STEPS_MS.map((ms) => (
          <Action
            key={ms}
            label={`Advance time by ${spanWord(ms)}`}
            act={async () => {
              await ask('POST', '/api/clock', { advanceMs: ms });
              return `Time has moved on by ${spanWord(ms)}.`;
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
            return 'All requests are forgotten.';
          }}
        >
          Clear requests
        </Action>
        <Action
          look="danger"
          act={async () => {
            await ask('POST', '/api/reset');
            return 'The sandbox is as it was started.';
          }}
        >
          Reset sandbox
        </Action>
      </div>
    </footer>
  );
}
