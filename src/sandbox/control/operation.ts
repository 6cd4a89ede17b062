/** An operation of the control plane: its description, from which routing, checks and the table in the docs derive, and what it does. */

import type * as v from 'valibot';
import { BadRequest } from '../state/world/problems.ts';
import { checked, object, type Schema } from '../state/world/schema.ts';
import type { ControlContext } from './context.ts';
import type { StateView } from './shapes.ts';

/** The result of an operation is sent as JSON, with status 200 unless it is a `Status`. */
export class Status {
  readonly status: number;
  readonly body: unknown;

  constructor(status: number, body: unknown) {
    this.status = status;
    this.body = body;
  }
}

/** The result of an operation that answers with an event stream of states. */
export class Stream {
  /** The same for all readers that are sent the same. */
  readonly key: string;
  readonly state: () => StateView;

  constructor(key: string, state: () => StateView) {
    this.key = key;
    this.state = state;
  }
}

/** A query or body: an object, of which the members are known. */
type Members<Value> = Schema<Value> & { readonly entries: v.ObjectEntries };

interface Input<Query, Body> {
  readonly query?: Members<Query>;
  readonly body?: Schema<Body>;
}

export interface Operation extends Input<unknown, unknown> {
  readonly method: string;
  /** With the names of parameters in braces. */
  readonly path: string;
  readonly summary: string;
  readonly run: (context: ControlContext, request: { path: never; query: never; body: never }) => unknown;
}

type NamesIn<Path> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | NamesIn<Rest> : never;

/** Describes an operation. `route`: method and path. */
export function operation<const Route extends string, Query, Body>(
  route: Route,
  summary: string,
  input: Input<Query, Body>,
  run: (
    context: ControlContext,
    request: { path: Readonly<Record<NamesIn<Route>, string>>; query: Query; body: Body },
  ) => unknown,
): Operation {
  const [method = '', path = ''] = route.split(' ');
  return { method, path, summary, ...input, run };
}

/** Runs an operation, after checking query and body against its description. */
export function runOperation(
  { query, body, run }: Operation,
  context: ControlContext,
  request: { path: Readonly<Record<string, string>>; query: URLSearchParams; body: string },
): unknown {
  const known = query ?? object({});
  const given = {
    path: request.path,
    query: checked('query', known, parsedQuery(request.query, known.entries)),
    body: body && checked('request body', body, parsedBody(request.body)),
  };
  return run(context, given as never);
}

/** The parameters, with numbers and booleans parsed. */
function parsedQuery(params: URLSearchParams, entries: v.ObjectEntries): object {
  const read = (name: string, value: string): unknown => {
    const schema = Object.hasOwn(entries, name) ? entries[name] : undefined;
    const { type } = schema && 'wrapped' in schema ? (schema.wrapped as Schema) : { type: 'string' };
    if (type === 'number' && value.trim() !== '' && Number.isFinite(Number(value))) return Number(value);
    return type === 'boolean' && /^(true|false)$/.test(value) ? value === 'true' : value;
  };
  return Object.fromEntries([...params].map(([name, value]) => [name, read(name, value)]));
}

function parsedBody(text: string): object {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return parsed;
  } catch {
    // Reported below, like anything else that is not an object.
  }
  throw new BadRequest('the body is not a JSON object');
}
