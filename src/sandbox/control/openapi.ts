import { type JsonSchema, toJsonSchemaDefs } from '@valibot/to-json-schema';
import { object } from '../state/schema.ts';
import type { Operation } from './operation.ts';
import { SHAPES } from './shapes.ts';

/** The document at `/openapi.json`. A test compares it with the server in both directions. */
export function openapiDocument(operations: Readonly<Record<string, Operation>>): object {
  // A shape with a name becomes a reference, wherever it is used.
  const used = Object.entries(operations).flatMap(([id, { query, body, answer }]) =>
    Object.entries({ query, body, answer }).flatMap(([name, schema]) => (schema ? [[`${id} ${name}`, schema]] : [])),
  );
  const { used: { properties = {} } = {}, ...schemas } = toJsonSchemaDefs(
    { ...SHAPES, used: object(Object.fromEntries(used)) },
    {
      target: 'draft-2020-12',
      errorMode: 'ignore',
      overrideRef: ({ referenceId }) => `#/components/schemas/${referenceId}`,
    },
  ) as Record<string, JsonSchema>;
  const paths: Record<string, Record<string, object>> = {};
  for (const [id, operation] of Object.entries(operations)) {
    const { path, method } = operation;
    paths[path] = { ...paths[path], [method.toLowerCase()]: operationObject(id, operation, properties) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'owner-token-registry sandbox: control plane',
      version: '1',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    security: [{}, { controlToken: [] }],
    paths,
    components: {
      schemas,
      securitySchemes: {
        controlToken: { type: 'http', scheme: 'bearer', description: 'Required unless bound to loopback.' },
      },
    },
  };
}

type Schemas = NonNullable<JsonSchema['properties']>;

function operationObject(id: string, { path, summary, secret }: Operation, schemas: Schemas): object {
  const { [`${id} query`]: query, [`${id} body`]: body, [`${id} answer`]: answer } = schemas;
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => {
    return { name, in: 'path', required: true, schema: { type: 'string' } };
  });
  const inQuery = Object.entries((query as JsonSchema | undefined)?.properties ?? {}).map(([name, schema]) => {
    return { name, in: 'query', schema };
  });
  return {
    operationId: id,
    summary,
    ...(secret && { description: 'The answer holds secrets.' }),
    parameters: [...inPath, ...inQuery],
    ...(body && { requestBody: { required: true, content: json(body) } }),
    responses: {
      200: {
        description: 'Done.',
        content: answer ? json(answer) : { 'text/event-stream': { schema: { type: 'string' } } },
      },
      ...(id === 'getReadiness' && { 503: { description: 'Not ready.', content: json(answer) } }),
      '4XX': { description: 'The request was refused.', content: json({ $ref: '#/components/schemas/ControlError' }) },
    },
  };
}

const json = (schema: unknown) => ({ 'application/json': { schema } });
