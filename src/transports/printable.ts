/** Text of the outside world made fit to be shown: no escape sequence survives, and it has an end. */

// Terminal sequences first, whole: CSI, then OSC/DCS/APC/PM/SOS strings up to their end, then two-byte escapes.
const TERMINAL_SEQUENCES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]/g;

// What remains of C0 and C1, and what reorders or breaks lines unseen: bidi marks, line and paragraph separators.
const CONTROLS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/**
 * Keeps line feeds, drops terminal sequences, turns tabs to spaces and other control characters to `?`.
 *
 * @param maxBytes longest result in UTF-8
 * @param keep which end survives a cut
 */
export function printable(text: string, maxBytes: number, keep: 'head' | 'tail' = 'head'): string {
  const clean = text
    .replace(TERMINAL_SEQUENCES, '')
    .replace(/\r\n/g, '\n')
    .replace(/\t/g, ' ')
    .replace(CONTROLS, '?');
  const bytes = Buffer.from(clean, 'utf8');
  if (bytes.length <= maxBytes) return clean;
  if (keep === 'tail') {
    let from = bytes.length - maxBytes;
    while (from < bytes.length && isContinuation(bytes[from]!)) from += 1;
    return bytes.toString('utf8', from);
  }
  let to = maxBytes;
  while (to > 0 && isContinuation(bytes[to]!)) to -= 1;
  return bytes.toString('utf8', 0, to);
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}
