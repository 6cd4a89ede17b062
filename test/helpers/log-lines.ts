import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { logField } from '../../src/reporting/logger.ts';
import { ROOT } from './source-files.ts';

const namesIn = (types: string) => [...types.matchAll(/'(\w+)'/g)].map(([, name = '']) => name);

/** The fields of each event in a file. They are types there, so they are read from its text. */
function fieldsIn(path: string): [event: string, fields: string[]][] {
  const source = readFileSync(join(ROOT, 'src', path), 'utf8');
  const failureFields = /type FailureField =([^;]+);/.exec(source)?.[1] ?? '';
  return [...source.matchAll(/'([\w.]+)': logLine(?:<([^>]+)>)?\(/g)].map(([, event = '', fields = '']) => [
    event,
    namesIn(fields.replace('FailureField', failureFields)),
  ]);
}

/** The fields of every event, by their names in the sources. */
export const FIELDS_OF_EVENTS = new Map([...fieldsIn('reporting/log-events.ts'), ...fieldsIn('redis/diagnostics.ts')]);

/** Every field that a log line may have, by its name in the sources. */
export const LOG_FIELDS = [...new Set(['event', 'registry', ...[...FIELDS_OF_EVENTS.values()].flat()])];

const SHORT_NAMES = new Map(LOG_FIELDS.map((name) => [logField(name), name]));

/** The fields of a log line by their names in the sources: `event` for `owner_token.event`. Others keep their names. */
export function shortNames(line: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(line).map(([name, value]) => [SHORT_NAMES.get(name) ?? name, value]));
}
