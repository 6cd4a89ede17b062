/** Whether a text of the service repeats something that was sent: such a text may reach no log, error or terminal. */

/** A text that has this many characters of a sent value in a row repeats it. */
const MIN_ECHO_LENGTH = 8;

/** Shorter values occur in ordinary words, so only a whole word counts. */
const MIN_VALUE_LENGTH = 6;

/** Whether a text contains a sent value, or a part of one, in clear or encoded. */
export function repeatsSent(text: string, sent: readonly string[]): boolean {
  const shown = text.toLowerCase();
  const words = shown.split(/[^\p{L}\p{N}]+/u);
  return sent
    .flatMap(formsOf)
    .map((form) => form.toLowerCase())
    .some((form) =>
      form.length < MIN_VALUE_LENGTH ? words.includes(form) : partsOf(form).some((part) => shown.includes(part)),
    );
}

/** Whether a text is part of a sent value, in clear or encoded. */
export function isPartOfSent(text: string, sent: readonly string[]): boolean {
  return sent.flatMap(formsOf).some((form) => form.toLowerCase().includes(text.toLowerCase()));
}

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

function partsOf(form: string): string[] {
  if (form.length <= MIN_ECHO_LENGTH) return [form];
  return Array.from({ length: form.length - MIN_ECHO_LENGTH + 1 }, (_, at) => form.slice(at, at + MIN_ECHO_LENGTH));
}
