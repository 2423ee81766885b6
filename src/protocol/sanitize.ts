/** Text of a peer, made fit for a terminal, a log or a person. */

/**
 * What must not reach a screen as it is, as ranges of code points: what starts terminal sequences, turns the reading
 * direction round, hides a text in another, or is nothing at all.
 */
const UNSAFE_RANGES: readonly (readonly [first: number, last: number])[] = [
  [0x00, 0x1f], // C0, ESC among them
  [0x7f, 0x9f], // DEL and C1
  [0xad, 0xad], // soft hyphen
  [0x34f, 0x34f], // combining grapheme joiner
  [0x61c, 0x61c], // Arabic letter mark
  [0x115f, 0x1160], // Hangul fillers
  [0x17b4, 0x17b5], // invisible Khmer vowels
  [0x180b, 0x180f], // Mongolian variation selectors
  [0x200b, 0x200f], // zero width, direction marks
  [0x2028, 0x202e], // line and paragraph separators, direction embeddings and overrides
  [0x2060, 0x206f], // word joiner, invisible operators, direction isolates
  [0x3164, 0x3164], // Hangul filler
  [0xd800, 0xdfff], // lone surrogates
  [0xfe00, 0xfe0f], // variation selectors
  [0xfeff, 0xfeff], // byte order mark
  [0xffa0, 0xffa0], // half-width Hangul filler
  [0xfff9, 0xfffb], // interlinear annotation
  [0x1bca0, 0x1bca3], // shorthand format controls
  [0x1d173, 0x1d17a], // musical format controls
  [0xe0000, 0xe0fff], // tag characters, further variation selectors
];

const UNSAFE = new RegExp(
  `[${UNSAFE_RANGES.map(([first, last]) => `${inClass(first)}-${inClass(last)}`).join('')}]`,
  'gu',
);

function inClass(codePoint: number): string {
  return `\\u{${codePoint.toString(16)}}`;
}

const CUT = '…';

/**
 * Writes every control, bidirectional, invisible or tag character as a visible `\u{..}` escape and cuts what is too
 * long. Total, and idempotent on what it returned. No escape and no surrogate pair is cut in two.
 *
 * @param maxLength longest text returned, in UTF-16 units, the ellipsis included; 0 or less returns ''
 */
export function sanitizeText(text: string, maxLength: number): string {
  if (!(maxLength > 0)) return '';
  // What lies beyond the limit is cut in any case: a huge text is not searched to its end.
  const head = text.length > maxLength ? text.slice(0, maxLength + 1) : text;
  const unsafe = head.search(UNSAFE) >= 0;
  if (!unsafe && text.length <= maxLength) return text;
  let result = '';
  for (const character of head) {
    const piece = unsafe ? character.replace(UNSAFE, escapeOf) : character;
    if (result.length + piece.length > maxLength) return shorten(result, maxLength);
    result += piece;
  }
  return result;
}

function escapeOf(character: string): string {
  return inClass(character.codePointAt(0)!);
}

/** The last whole character or escape gives way to the ellipsis where there is no room for both. */
function shorten(text: string, maxLength: number): string {
  let kept = text;
  while (kept.length + CUT.length > maxLength) kept = kept.replace(/(?:\\u\{[0-9a-f]+\}|.)$/su, '');
  return kept + CUT;
}

/** Of what a process wrote last the line that tells most: the last one that speaks of an error, else the last one. */
export function tellingLine(text: string): string {
  const lines = text.trimEnd().split('\n');
  return (lines.findLast((line) => /\b\w*error\b/i.test(line)) ?? lines.at(-1) ?? '').trim();
}
