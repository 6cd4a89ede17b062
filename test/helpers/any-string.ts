import fc from 'fast-check';

const codePoint = fc.integer({ min: 0, max: 0x10ffff }).map(
  (value) => String.fromCodePoint(value),
  (value) => String(value).codePointAt(0) as number,
);

/** Strings of any code points, lone surrogates included; fast-check's own `binary` strings take a second to set up. */
export const anyString = fc.string({ unit: codePoint });
