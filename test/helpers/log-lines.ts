import { LOG_EVENTS } from '../../src/log-events.ts';
import { logField } from '../../src/logger.ts';
import { SHARING_EVENTS } from '../../src/redis/diagnostics.ts';

/** Every field that a log line may have, by its name in the sources. */
export const LOG_FIELDS = [
  ...new Set<string>([
    ...['event', 'registry'],
    ...Object.values(LOG_EVENTS).flatMap(({ fields }): readonly string[] => fields),
    ...Object.values(SHARING_EVENTS).flatMap(({ fields }): readonly string[] => fields),
  ]),
];

const SHORT_NAMES = new Map(LOG_FIELDS.map((name) => [logField(name), name]));

/** The fields of a log line by their names in the sources: `event` for `owner_token.event`. Others keep their names. */
export function shortNames(line: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(line).map(([name, value]) => [SHORT_NAMES.get(name) ?? name, value]));
}
