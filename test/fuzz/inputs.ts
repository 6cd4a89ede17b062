/** Arbitraries that several targets share. */

import fc, { type Arbitrary } from 'fast-check';
import { SECRETS } from '../helpers/canaries.ts';

const ODD_TEXTS = [
  ...['', ' ', '0', '-1', '3600', '1e3', '1e999', 'NaN', 'null', '__proto__', 'constructor', '\u0000', '\r\nX-Y: z'],
  ...['\u001b[2J', '\ud800', '\u202e', '\ufeff', '<html>', '"', '\\', '{', '}', '[', ']', ',', '.', '=', '%00', 'é💥'],
];

/** What a service may repeat of a request, as it was sent or encoded. */
export const echoesOf = (...secrets: readonly string[]): Arbitrary<string> =>
  fc.constantFrom(
    ...secrets.flatMap((secret) => {
      const bytes = Buffer.from(secret);
      return [secret, secret.toUpperCase(), bytes.toString('base64'), bytes.toString('hex'), [...secret].join(' ')];
    }),
  );

/** Texts that repeat nothing. */
export const plainTexts = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...ODD_TEXTS) },
  { weight: 3, arbitrary: fc.string({ maxLength: 30 }) },
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom('x', 'ab ', '<!--', '[', '\n'), fc.nat(3_000)).map(repeated) },
);

/** Some repeat the client secret, which every request carries. */
export const texts = fc.oneof(
  { weight: 4, arbitrary: plainTexts },
  { weight: 1, arbitrary: echoesOf(SECRETS.clientSecret) },
);

function repeated([text, times]: readonly [string, number]): string {
  return text.repeat(times);
}

/** Any JSON value, mostly a small one. */
export const oddValues: Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: texts },
  { weight: 3, arbitrary: fc.constantFrom(null, true, false, 0, -1, 0.5, 1, 600, 1e12, 1e20, 1e300, -0) },
  { weight: 1, arbitrary: fc.constantFrom([], {}, [[]], [null], { a: { b: {} } }) },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }).map((value) => value as unknown) },
);

/** Mostly these, sometimes anything. */
export const mostly = <T>(usual: Arbitrary<T>, odd: Arbitrary<unknown> = oddValues): Arbitrary<unknown> =>
  fc.oneof({ weight: 5, arbitrary: usual }, { weight: 1, arbitrary: odd });

/** These texts, cut, doubled and overwritten in a few places. */
export function mutated(originals: Arbitrary<string>, pieces: Arbitrary<string> = texts): Arbitrary<string> {
  const edit = fc.record({ at: fc.nat(), cut: fc.nat(12), put: pieces });
  return fc.tuple(originals, fc.array(edit, { maxLength: 3 })).map(([original, edits]) => {
    let text = original;
    for (const { at, cut, put } of edits) {
      const from = at % (text.length + 1);
      text = text.slice(0, from) + put + text.slice(from + cut);
    }
    return text;
  });
}

/** Objects with some of these members, as JSON, whole or damaged. */
export function jsonOf(members: Record<string, Arbitrary<unknown>>): Arbitrary<string> {
  const whole = fc.record(members, { requiredKeys: [] }).map((value) => JSON.stringify(value));
  return fc.oneof({ weight: 3, arbitrary: whole }, { weight: 1, arbitrary: mutated(whole) });
}
