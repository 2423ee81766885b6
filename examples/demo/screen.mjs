// How the demo looks: colour on a terminal only, never with NO_COLOR, and no line longer than the screen.

const { stdout, env } = process;
const isTerminal = stdout.isTTY === true && env.TERM !== 'dumb';
const isPainted = isTerminal && !env.NO_COLOR;
const codes = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, magenta: 35, cyan: 36 };
const marks = {
  modern: ['●', 'green'],
  legacy: ['◐', 'yellow'],
  unavailable: ['✕', 'red'],
  ok: ['✓', 'green'],
  failed: ['✕', 'red'],
  attention: ['!', 'yellow'],
  working: ['◌', 'cyan'],
};
const markOf = (state) => marks[state] ?? marks.working;

/** Columns to fill: those of the terminal, at most 100. */
const columns = Math.min(isTerminal ? stdout.columns || 80 : 100, 100);

// A reader that goes away (`npm start | head`) is no reason to leave anything running.
stdout.on('error', () => {});

/** The glyph of a state as pieces of a line: three columns. */
export const mark = (state) => [[' '], markOf(state), [' ']];

/** The style of a state. */
export const styleOf = (state) => markOf(state)[1];

/**
 * One line from pieces: `[text]`, `[text, style]` or `[text, style, width]`. What does not fit is cut before it is
 * painted.
 */
function line(pieces) {
  let left = columns;
  let shown = '';
  for (const [text, style, width = 0] of pieces) {
    const gap = ' '.repeat(Math.max(0, width - text.length));
    const cut = text.length > left ? `${text.slice(0, Math.max(0, left - 1))}…` : text;
    if (left > 0) shown += paint(cut, style) + gap;
    left -= text.length + gap.length;
  }
  return shown.trimEnd();
}

function paint(text, style) {
  return isPainted && style !== undefined && text !== '' ? `\x1b[${codes[style]}m${text}\x1b[0m` : text;
}

/** Prints one line; without pieces, an empty one. */
export function print(...pieces) {
  stdout.write(`${line(pieces)}\n`);
}

export function heading(title, note = '') {
  print();
  print([` ${title}`, 'bold'], [`  ${note}`, 'dim']);
}

/** A line that is written over, on a terminal; nothing elsewhere. */
export const progress = {
  show(...pieces) {
    if (isTerminal) stdout.write(`\r\x1b[K${line(pieces)}`);
  },
  clear() {
    if (isTerminal) stdout.write('\r\x1b[K');
  },
};
