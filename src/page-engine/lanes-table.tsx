import { hasFailed, kindOf, type Lane, liveBar } from './data.ts';
import { Mark, Table, TokenStatus } from './parts.tsx';
import { countWord, MARK_WORDS, spanWord, timeWord } from './words.ts';

interface Props {
  readonly lanes: readonly Lane[];
  /** The end of the window. */
  readonly nowMs: number;
  readonly windowMs: number;
  /** The most marks that a lane has. A lane that has them all may have had more. */
  readonly mostMarks: number;
}

/** The picture as a table: requests of the window, and the token of each owner at its end. */
export function LanesTable(props: Props) {
  const { lanes, nowMs, windowMs } = props;
  return (
    <Table
      label="Lanes as a table"
      heads={['Owner', 'Token', { number: 'Requests' }, { number: 'Failed' }, { number: 'Wasted' }, 'Last request']}
      caption={`Requests of ${spanWord(windowMs)} until ${timeWord(nowMs)}, and tokens at that time`}
      looks={{ region: 'tall', table: 'stack' }}
    >
      {lanes.map((lane) => (
        <LaneRow key={lane.id} lane={lane} {...props} />
      ))}
    </Table>
  );
}

function LaneRow({ lane, nowMs, windowMs, mostMarks }: { lane: Lane } & Props) {
  const marks = lane.marks.filter(([, atMs]) => atMs >= nowMs - windowMs && atMs <= nowMs);
  const last = marks.at(-1);
  const count = (counted: number) => countWord(counted) + (marks.length >= mostMarks ? '+' : '');
  return (
    <tr>
      <th scope="row">{lane.name}</th>
      <td data-word="Token">
        <TokenStatus endMs={liveBar(lane, nowMs)?.toMs} nowMs={nowMs} none={endedWord(lane)} />
      </td>
      <td data-word="Requests" class="number">
        {count(marks.length)}
      </td>
      <td data-word="Failed" class="number">
        {count(marks.filter((mark) => hasFailed(kindOf(mark))).length)}
      </td>
      <td data-word="Wasted" class="number">
        {count(marks.filter(([, , , wasted]) => wasted).length)}
      </td>
      <td data-word="Last request">
        {last && (
          <>
            <Mark kind={kindOf(last)} /> {MARK_WORDS[kindOf(last)]}, {timeWord(last[1])}
          </>
        )}
      </td>
    </tr>
  );
}

/** Why an owner has no usable token, as far as the picture shows. */
function endedWord({ bars }: Lane): string {
  const last = bars.at(-1);
  if (!last) return 'none';
  return last.cut ? 'revoked' : 'expired';
}
