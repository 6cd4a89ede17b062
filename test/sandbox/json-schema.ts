type Schema = Record<string, unknown>;

/** Where a value does not match a schema: the part of JSON Schema that the control plane's description uses. */
export function mismatches(value: unknown, schema: Schema, schemas: Record<string, Schema>, at: string): string[] {
  const { $ref, oneOf, anyOf, type, enum: values, properties, items, additionalProperties: others, required } = schema;
  if (typeof $ref === 'string') {
    const named = schemas[$ref.split('/').at(-1) ?? ''];
    return named ? mismatches(value, named, schemas, at) : [`${at}: no schema ${$ref}`];
  }
  if (Array.isArray(oneOf)) {
    const fitting = oneOf.filter((one: Schema) => mismatches(value, one, schemas, at).length === 0);
    return fitting.length === 1 ? [] : [`${at}: fits ${fitting.length} of oneOf: ${JSON.stringify(value)}`];
  }
  if (Array.isArray(anyOf) && !anyOf.some((one: Schema) => mismatches(value, one, schemas, at).length === 0))
    return [`${at}: fits none of anyOf: ${JSON.stringify(value)}`];
  const types = ([] as unknown[]).concat(type ?? []);
  if (types.length > 0 && !types.some((one) => isOf(value, one)))
    return [`${at}: no ${types}: ${JSON.stringify(value)}`];
  if (Array.isArray(values) && !values.includes(value)) return [`${at}: ${value} is none of ${values}`];
  if ('const' in schema && value !== schema.const) return [`${at}: ${value} is not ${schema.const}`];
  if (Array.isArray(value)) {
    return items ? value.flatMap((item, n) => mismatches(item, items as Schema, schemas, `${at}[${n}]`)) : [];
  }
  if (typeof value !== 'object' || value === null) return [];
  const known = (properties ?? {}) as Record<string, Schema>;
  const missing = ((required ?? []) as string[]).filter((name) => !(name in value)).map((name) => `${at}: no ${name}`);
  const wrong = Object.entries(value).flatMap(([name, member]) => {
    const own = known[name] ?? (typeof others === 'object' ? (others as Schema) : undefined);
    if (own) return mismatches(member, own, schemas, `${at}.${name}`);
    return others === false ? [`${at}: ${name} is not described`] : [];
  });
  return [...missing, ...wrong];
}

function isOf(value: unknown, type: unknown): boolean {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value);
  return typeof value === type;
}
