import { expect, it } from 'vitest';
import { isOdd, visibleWord } from '../../src/live-view/labels.ts';

it.each([
  ['Müller & Söhne', false, 'Müller & Söhne'],
  ['東京 支店', false, '東京 支店'],
  [' ', true, '⟨U+0020⟩'],
  ['acme ', true, 'acme⟨U+0020⟩'],
  ['\u200bacme', true, '⟨U+200B⟩acme'],
  ['\u3164', true, '⟨U+3164⟩'],
  ['ac\u202eem', true, 'ac⟨U+202E⟩em'],
  ['a\u0000\u{e0041}', true, 'a⟨U+0000⟩⟨U+E0041⟩'],
])('labels that could be taken for others are noticed, and what is invisible is shown: %j', (label, odd, shown) => {
  expect([isOdd(label), visibleWord(label)]).toEqual([odd, shown]);
});
