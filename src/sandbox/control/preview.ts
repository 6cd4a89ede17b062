import { refusalAnswer, tokenAnswer } from '../service/answers.ts';
import { statusFaultAnswer } from '../service/fault-effects.ts';
import type { Answer } from '../service/http-io.ts';
import { FAULT_KINDS } from '../state/fault-kinds.ts';
import type { FaultRule } from '../state/fault-rules.ts';
import type { World } from '../state/world.ts';
import type { PreviewView } from './shapes.ts';

/** An example token, never issued. */
const EXAMPLE_TOKEN = 'sbx_EXAMPLE';

const MAX_SHOWN = 2000;

/**
 * The answer that a token request would get now: with `fault`, under that rule alone; with `error`, when it is refused for
 * an unknown access key. Nothing is issued or counted.
 */
export function previewOf(world: World, { fault, error }: { fault?: FaultRule; error?: boolean }): PreviewView {
  if (fault === undefined) return shown(error ? exampleRefusal(world) : exampleAnswer(world));
  const note = FAULT_KINDS[fault.kind].description;
  switch (fault.kind) {
    case 'status':
      return shown(statusFaultAnswer('token', fault, undefined));
    case 'redirect': {
      const { status = 307, location = '/auth/v2/token' } = fault;
      return { status, headers: { location }, body: '' };
    }
    case 'refuse':
    case 'silence':
    case 'garbage':
      return { headers: {}, body: '', note };
    default:
      return { ...shown(exampleAnswer(world)), note };
  }
}

const exampleAnswer = (world: World): Answer => tokenAnswer(world.profile, EXAMPLE_TOKEN, world.answers).answer;

function exampleRefusal(world: World): Answer {
  const field = 'appliance_owner_scope';
  const refusal = { status: 400, error: 'invalid_grant', description: `${field} is not a known access key`, field };
  const sent = {
    grant_type: 'client_credentials',
    client_id: '<CLIENT_ID>',
    client_secret: '<CLIENT_SECRET>',
    [field]: '<ACCESS_KEY>',
  };
  return refusalAnswer(world.profile, refusal, sent);
}

const shown = ({ status, headers, body }: Answer): PreviewView => ({
  status,
  headers: { ...headers },
  body: body.slice(0, MAX_SHOWN),
});
