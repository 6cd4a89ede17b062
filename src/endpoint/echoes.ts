/** Whether a text of the service repeats something that was sent: such a text may reach no log, error or terminal. */

/** A text that has this many letters and digits of a sent value in a row repeats it. */
const MIN_ECHO_LENGTH = 8;

/** Shorter values occur in ordinary words, so only a whole word counts. */
const MIN_VALUE_LENGTH = 6;

/**
 * Whether a text contains a sent value, or a part of one, in clear or encoded; or is itself part of one. Only letters and
 * digits are compared: services and gateways escape the other characters in many ways.
 */
export function repeatsSent(text: string, sent: readonly string[]): boolean {
  const words = text.toLowerCase().split(NOT_ALPHANUMERIC);
  const shown = [text, text.replace(ESCAPED, '')].map(alphanumeric);
  return sent.flatMap(formsOf).some((form) => {
    if (shown.some((each) => form.includes(each))) return true;
    if (form.length < MIN_VALUE_LENGTH) return words.includes(form);
    return partsOf(form).some((part) => shown.some((each) => each.includes(part)));
  });
}

const NOT_ALPHANUMERIC = /[^\p{L}\p{N}]+/u;

/** A character as HTML, URLs and JSON escape it. */
const ESCAPED = /&#?\w+;|%[\da-f]{2}|\\u[\da-f]{4}|\\./gi;

function alphanumeric(text: string): string {
  return text.toLowerCase().split(NOT_ALPHANUMERIC).join('');
}

function formsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  return [value, bytes.toString('base64'), bytes.toString('hex')].map(alphanumeric);
}

function partsOf(form: string): string[] {
  if (form.length <= MIN_ECHO_LENGTH) return [form];
  return Array.from({ length: form.length - MIN_ECHO_LENGTH + 1 }, (_, at) => form.slice(at, at + MIN_ECHO_LENGTH));
}

/** @see {@link https://www.rfc-editor.org/rfc/rfc6749#appendix-B RFC 6749 Appendix B} */
export function formEncoded(value: string): string {
  return new URLSearchParams([['', value]]).toString().slice(1);
}
