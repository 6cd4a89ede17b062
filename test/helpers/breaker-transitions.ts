import { type Blame, type BlameEvent, initialBlame, reduceBlame } from '../../src/failures/blame.ts';
import { OwnerTokenError } from '../../src/index.ts';

const RANGE = { baseMs: 1_000, capMs: 10_000 };
const RANGES = { owner: RANGE, client: RANGE, endpoint: RANGE };
const down = new OwnerTokenError('endpoint_unavailable', 'it is down');
const refused = new OwnerTokenError('owner_refused', 'no', { oauthError: 'invalid_grant' });
const given = new OwnerTokenError('endpoint_unavailable', 'it is down', { failureScope: 'endpoint' });

/** Takes the circuit through every event, and returns the transitions between its phases. */
export function breakerTransitions(): string[] {
  const transitions = new Set<string>();
  let number = 0;
  let nowMs = 0;
  let blame: Blame<string>;
  const step = (event: BlameEvent<string>) => {
    nowMs += 2_000;
    reduceBlame(blame, event, nowMs);
  };
  const succeed = (owner: string) => step({ kind: 'succeeded', owner, number: ++number, wasRefused: false });
  const fail = (owner: string, error = down, isTrial = false) =>
    step({ kind: 'failed', owner, isTrial, error, ownerFailures: 0, jitter: 0 });
  const ask = (owner: string) => step({ kind: 'trialSent', owner });
  const phaseOf = ({ doubt }: Blame<string>) => (doubt ? (doubt.circuit ? 'open' : 'checking') : 'closed');
  const on = (event: string, act: () => void) => {
    const phase = phaseOf(blame);
    const circuit = blame.doubt?.circuit;
    act();
    if (phaseOf(blame) !== phase || blame.doubt?.circuit !== circuit) {
      transitions.add(`${phase} ${phaseOf(blame)}: ${event}`);
    }
  };
  const known = () => {
    blame = initialBlame(RANGES);
    for (const owner of ['x', 'y']) succeed(owner);
  };
  const checking = () => {
    known();
    on('three suspects in a row', () => ['a', 'b', 'c'].forEach((owner) => void fail(owner)));
    ask('y');
  };
  const open = () => {
    checking();
    fail('y', down, true);
    ask('x');
    on('both canaries failed', () => fail('x', down, true));
    step({ kind: 'due', isAwaited: true });
    ask('y');
  };
  const resume = () => step({ kind: 'resumed' });
  for (const end of [() => succeed('y'), () => fail('y', refused, true), resume]) {
    checking();
    on('a success, or a canary fails for its owner alone, or resume()', end);
  }
  for (const before of [known, checking]) {
    before();
    on('a failure with the failureScope client or endpoint from its source', () => fail('d', given));
  }
  blame = initialBlame(RANGES);
  on('ten suspects before the first success', () => [...'abcdefghij'].forEach((owner) => void fail(owner)));
  for (const end of [() => succeed('z'), () => succeed('y'), () => fail('y', refused, true), resume]) {
    open();
    on('a success, or a trial fails for its owner alone, or resume()', end);
  }
  open();
  on('a trial fails, the next pause begins', () => fail('y', down, true));
  return [...transitions];
}
