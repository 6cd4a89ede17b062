import { type Lane, liveToken } from './model.ts';
import { Mark, Scroll, State } from './parts.tsx';
import { countWord, isGood, markOf, outcomeWord, ownerWord, spanWord, timeWord } from './words.ts';

/** What the picture shows, as a table: the last requests and the token of each owner. */
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
  const failed = requests.filter((entry) => !isGood(entry) && entry.outcome !== 'pending').length;
  const last = requests.at(-1);
  return (
    <tr>
      <th scope="row">{ownerWord(lane.id)}</th>
      <td>
        <TokenState lane={lane} nowMs={nowMs} />
      </td>
      <td class="number">{countWord(requests.length)}</td>
      <td class="number">{countWord(failed)}</td>
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

/** Whether an owner has a token that is good now, and for how long. */
export function TokenState({ lane, nowMs }: { lane: Lane | undefined; nowMs: number }) {
  const token = lane && liveToken(lane, nowMs);
  if (token) return <State good={true}>good for {spanWord(token.expiresAtMs - nowMs)}</State>;
  const last = lane?.tokens.at(-1);
  if (!last) return <State good={false}>none</State>;
  return <State good={false}>{last.revokedAtMs === undefined ? 'expired' : 'revoked'}</State>;
}
