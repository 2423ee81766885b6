/** Colours, glyphs and widths: only where a terminal shows them. */
import type { PeerStateName } from '../host/facade.js';
import type { Output } from './io.js';

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const;
export type Style = keyof typeof CODES;

export interface Theme {
  paint(style: Style, text: string): string;
  /** One column wide, painted. */
  glyph(state: PeerStateName): string;
  readonly dash: string;
  readonly arrow: string;
  /** Columns to fill; infinite where no terminal cuts lines. */
  readonly width: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Widest layout: longer lines are hard to follow with the eye. */
const MAX_WIDTH = 160;

/** NO_COLOR (https://no-color.org) counts when it is set and not empty. */
export function themeOf(output: Output, env: Environment): Theme {
  const plain = !output.isTTY || isFilled(env['NO_COLOR']) || env['TERM'] === 'dumb';
  const unicode = speaksUnicode(env);
  const paint = (style: Style, text: string): string =>
    plain || text === '' ? text : `\x1b[${CODES[style]}m${text}\x1b[0m`;
  return {
    paint,
    glyph(state) {
      const [style, shape, ascii] = GLYPHS[state];
      return paint(style, unicode ? shape : ascii);
    },
    dash: unicode ? '–' : '-',
    arrow: unicode ? '→' : '->',
    width: output.isTTY ? Math.min(output.columns ?? 80, MAX_WIDTH) : Number.POSITIVE_INFINITY,
  };
}

const GLYPHS: Readonly<Record<PeerStateName, readonly [Style, string, string]>> = {
  idle: ['dim', '○', '.'],
  probing: ['cyan', '◌', '~'],
  legacyProbe: ['cyan', '◌', '~'],
  modern: ['green', '●', '*'],
  legacy: ['yellow', '◐', 'o'],
  reconnecting: ['yellow', '◌', '~'],
  unavailable: ['red', '✕', 'x'],
  stopped: ['dim', '○', '.'],
};

function isFilled(value: string | undefined): boolean {
  return value !== undefined && value !== '';
}

/** Unless the locale says otherwise: containers often set none at all, and their terminals show UTF-8. */
function speaksUnicode(env: Environment): boolean {
  const locale = [env['LC_ALL'], env['LC_CTYPE'], env['LANG']].find(isFilled);
  if (env['TERM'] === 'linux') return false;
  return locale === undefined || /utf-?8/i.test(locale);
}
