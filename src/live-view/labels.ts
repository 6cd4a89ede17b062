/** Labels of owners: the host's texts, which may hold anything. */

/** Nothing to see, or characters that are invisible or turn what stands beside them around. */
const ODD = /\p{C}|[\u034f\u115f\u1160\u2800\u3164\uffa0]|^\s|\s$/u;

/** A label with what cannot be seen in it as code points. */
export const visibleWord = (label: string): string =>
  label.replace(
    new RegExp(ODD, 'gu'),
    (odd) => `⟨U+${(odd.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')}⟩`,
  );

/** Whether a label alone could be taken for another one. */
export const isOdd = (label: string): boolean => ODD.test(label);
