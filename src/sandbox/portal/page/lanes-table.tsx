import { failed, markOf } from '../../state/marks.ts';
import { type Lane, liveToken } from './model.ts';
import { Mark, Scroll, State } from './parts.tsx';
import { countWord, outcomeWord, ownerWord, spanWord, timeWord } from './words.ts';

/** The picture as a table: requests of the window, and the token of each owner. */
export function LanesTable({ lanes, nowMs, windowMs }: { lanes: readonly Lane[]; nowMs: number; windowMs: number }) {
  return (
    <Scroll label="Lanes as a table" class="tall">
      <table>
        <caption>Requests of the last {spanWord(windowMs)}, and tokens now</caption>
        <thead>
          <tr>
            <th scope="col">Owner</th>
            <th scope="col">Token</th>
            <th scope="col" class="number">
              Requests
            </th>
            <th scope="col" class="number">
              Failed
            </th>
            <th scope="col" class="number">
              Wasted
            </th>
            <th scope="col">Last request</th>
          </tr>
        </thead>
        <tbody>
          {lanes.map((lane) => (
            <LaneRow key={lane.id} lane={lane} nowMs={nowMs} sinceMs={nowMs - windowMs} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function LaneRow({ lane, nowMs, sinceMs }: { lane: Lane; nowMs: number; sinceMs: number }) {
  const requests = lane.requests.filter(({ atMs }) => atMs >= sinceMs);
  const last = requests.at(-1);
  return (
    <tr>
      <th scope="row">{lane.name || ownerWord(lane.id)}</th>
      <td>
        <TokenState endMs={liveToken(lane, nowMs)?.expiresAtMs} nowMs={nowMs} none={endedWord(lane)} />
      </td>
      <td class="number">{countWord(requests.length)}</td>
      <td class="number">{countWord(requests.filter(failed).length)}</td>
      <td class="number">{countWord(requests.filter(({ wasted }) => wasted).length)}</td>
      <td>
        {last && (
          <>
            <Mark kind={markOf(last)} /> {outcomeWord(last)}, {timeWord(last.atMs)}
          </>
        )}
      </td>
    </tr>
  );
}

/** Why an owner has no usable token, as far as the picture shows. */
function endedWord({ tokens }: Lane): string {
  const last = tokens.at(-1);
  if (!last) return 'none';
  return last.revokedAtMs === undefined ? 'expired' : 'revoked';
}

/** Whether an owner has a usable token, and for how long. */
export function TokenState({ endMs, nowMs, none }: { endMs: number | undefined; nowMs: number; none: string }) {
  if (endMs === undefined || endMs <= nowMs) return <State good={false}>{none}</State>;
  return <State good={true}>valid for {spanWord(endMs - nowMs)}</State>;
}
