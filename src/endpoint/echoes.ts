/** Whether a text of the service repeats something that was sent: such a text may reach no log, error or terminal. */

/** A text that has this many characters of a sent value in a row repeats it. */
const MIN_ECHO_LENGTH = 8;

/** Shorter values occur in ordinary words, so only a whole word counts. */
const MIN_VALUE_LENGTH = 6;

/**
 * As much as can be compared within a millisecond: the comparison blocks the event loop for each refused request, and a key
 * may have any length.
 */
const MAX_SENT_BYTES = 768;
const MAX_SENT_VALUES = 64;

/**
 * The values of one request. Comparing a text with them takes time in proportion to both lengths, not to their product. If they are
 * too long or too many, every text counts as an echo: what cannot be checked is not shown.
 */
export class SentValues {
  readonly #values: readonly string[];
  readonly #isComparable: boolean;
  #lowered: ReadonlySet<string> | undefined;

  constructor(values: readonly string[]) {
    this.#values = values;
    const bytes = values.reduce((sum, value) => sum + Buffer.byteLength(value), 0);
    this.#isComparable = values.length <= MAX_SENT_VALUES && bytes <= MAX_SENT_BYTES;
  }

  /** Whether a text contains a value, or a part of one, in clear or encoded. */
  areRepeatedIn(text: string): boolean {
    return this.#repeats(text, true);
  }

  /** Whether a text contains a value inside something that was encoded as a whole, or twice. Short values occur there by chance. */
  areHiddenIn(text: string): boolean {
    return this.#repeats(decoded(text), false);
  }

  #repeats(text: string, isInClear: boolean): boolean {
    if (!this.#isComparable) return true;
    const shown = text.toLowerCase();
    const parts = new SubstringIndex(shown);
    return this.#someForm((form) => {
      if (form.length < MIN_VALUE_LENGTH) return isInClear && hasWord(shown, form);
      return form.length <= MIN_ECHO_LENGTH ? shown.includes(form) : parts.sharesOneWith(form);
    });
  }

  /** Whether a text is part of a value, in clear or encoded. */
  contain(text: string): boolean {
    return !this.#isComparable || this.#someForm((form) => form.includes(text.toLowerCase()));
  }

  #someForm(passes: (form: string) => boolean): boolean {
    this.#lowered ??= new Set(this.#values.flatMap(formsOf).map((form) => form.toLowerCase()));
    for (const form of this.#lowered) if (passes(form)) return true;
    return false;
  }
}

/** Whether a word, which may contain punctuation, occurs in a text other than inside a longer word. */
function hasWord(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at >= 0 && at < text.length; at = text.indexOf(word, at + 1)) {
    const end = at + word.length;
    // Two code units, because a letter may take both.
    const [before, after] = [text.slice(Math.max(0, at - 2), at), text.slice(end, end + 2)];
    if (!ENDS_IN_WORD.test(before) && !BEGINS_IN_WORD.test(after)) return true;
  }
  return false;
}

const ENDS_IN_WORD = /[\p{L}\p{N}]$/u;
const BEGINS_IN_WORD = /^[\p{L}\p{N}]/u;

/**
 * Finds substrings that a text shares with others and that are long enough to be an echo. The others have up to a hundred
 * thousand such substrings, so each hash is computed from the one before (Rabin-Karp), and a substring is compared only if
 * the text has one with that hash.
 */
class SubstringIndex {
  readonly #text: string;
  /** Two marks for each substring of the text, at the two halves of its hash. */
  readonly #marks = new Uint8Array(2 * MARKS);

  constructor(text: string) {
    this.#text = text;
    const marks = this.#marks;
    someHash(text, (hash) => {
      marks[hash & (MARKS - 1)] = marks[MARKS + (hash >>> HASH_SHIFT)] = 1;
      return false;
    });
  }

  sharesOneWith(other: string): boolean {
    const text = this.#text;
    const marks = this.#marks;
    return someHash(other, (hash, end) => {
      if (!marks[hash & (MARKS - 1)] || !marks[MARKS + (hash >>> HASH_SHIFT)]) return false;
      return text.includes(other.slice(end - MIN_ECHO_LENGTH, end));
    });
  }
}

const MARKS = 2 ** 15;
const HASH_SHIFT = 17;
const BASE = 0x9e3779b1;
const BASE_TO_LENGTH = Array.from({ length: MIN_ECHO_LENGTH }).reduce((power: number) => Math.imul(power, BASE), 1);

/** Whether a condition holds for the hash and the end of any substring. */
function someHash(text: string, holds: (hash: number, end: number) => boolean): boolean {
  let hash = 0;
  for (let at = 0; at < text.length; at++) {
    hash = (Math.imul(hash, BASE) + text.charCodeAt(at)) | 0;
    if (at >= MIN_ECHO_LENGTH) hash = (hash - Math.imul(text.charCodeAt(at - MIN_ECHO_LENGTH), BASE_TO_LENGTH)) | 0;
    if (at >= MIN_ECHO_LENGTH - 1 && holds(hash, at + 1)) return true;
  }
  return false;
}

/** How often a text is decoded: a value that was encoded twice is found. */
const DECODINGS = 2;

/** The text with everything that looks encoded decoded: an echo may be part of what was encoded. */
function decoded(text: string): string {
  let found = text;
  for (let round = 0; round < DECODINGS; round++) {
    const unescaped = found
      .replace(/(?:%[\da-f]{2})+/gi, (hex) => Buffer.from(hex.replaceAll('%', ''), 'hex').toString())
      .replace(/\\u([\da-f]{4})|\\x([\da-f]{2})|&#x([\da-f]{1,5});/gi, (_, a, b, c) =>
        String.fromCodePoint(parseInt(a ?? b ?? c, 16)),
      )
      .replace(/&#(\d{1,6});/g, (_, code) => String.fromCodePoint(Number(code)));
    const words = found.match(/[\w+/-]{8,}/g) ?? [];
    found = [unescaped, ...words.flatMap((word) => [fromBase64(word), Buffer.from(word, 'hex').toString()])].join('\n');
  }
  return found;
}

const fromBase64 = (word: string): string => Buffer.from(word, 'base64').toString();

/** A value in clear, and as services and gateways escape it when they repeat it. */
function formsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  return [
    value,
    JSON.stringify(value).slice(1, -1),
    percentEncoded(value),
    formEncoded(value),
    value.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`),
    value.replace(/[&<>"']/g, (char) => NAMED_ENTITIES[char] as string),
    ...(['base64', 'base64url', 'hex'] as const).map((encoding) => bytes.toString(encoding)),
  ];
}

const NAMED_ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};

/** A form leaves `*` as it is and turns a space into `+`; other encoders do the opposite. */
function percentEncoded(value: string): string {
  return formEncoded(value).replaceAll('+', '%20');
}

/** @see {@link https://www.rfc-editor.org/rfc/rfc6749#appendix-B RFC 6749 Appendix B} */
export function formEncoded(value: string): string {
  return new URLSearchParams([['', value]]).toString().slice(1);
}
