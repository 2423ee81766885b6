/** From data to text: JSON, lines, tables. Whatever a server said is escaped here before it reaches a screen. */
import { sanitizeText } from '../protocol/sanitize.js';
import type { Theme } from './theme.js';

/** Deepest nesting that is shown. A server may nest deeper than any recursion over its answer could go. */
const MAX_DEPTH = 500;

/**
 * One document on one line. Beside what JSON escapes anyway, DEL, C1, bidirectional and invisible characters are
 * written as `\uXXXX`: the same document to a program, and harmless to a terminal.
 */
export function toJson(value: unknown): string {
  return stringify(value).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    Array.from({ length: character.length }, (_, at) => escapeUnit(character.charCodeAt(at))).join(''),
  );
}

function escapeUnit(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, '0')}`;
}

function stringify(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return JSON.stringify(mapStrings(value, (text) => text));
  }
}

/** A value with every string in it changed; keys stay, and what is nested too deep is left out. */
export function mapStrings(value: unknown, change: (text: string) => string, depthLeft = MAX_DEPTH): unknown {
  if (typeof value === 'string') return change(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depthLeft === 0) return '[nested too deep to be shown]';
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, change, depthLeft - 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, mapStrings(item, change, depthLeft - 1)]),
  );
}

/** One line of a server's text, escaped, cut to `max` UTF-16 units. */
export function oneLine(text: string, max = 500): string {
  return sanitizeText(text.replace(/[\r\n\t ]+/g, ' ').trim(), max);
}

/** A server's text with its line breaks and tabs, all else escaped. Not cut. */
export function manyLines(text: string): string {
  const safe = (piece: string): string => sanitizeText(piece, Number.POSITIVE_INFINITY);
  return text
    .split(/\r?\n/)
    .map((line) => line.split('\t').map(safe).join('\t'))
    .join('\n');
}

export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
  /** Widest this column gets. */
  readonly max?: number;
}

const GAP = '  ';

/**
 * An aligned table. Each row is its cells and a glyph before them; lines under a row are indented to its first cell.
 */
export interface Row {
  readonly glyph: string;
  readonly cells: readonly string[];
  readonly below?: readonly string[];
}

export const INDENT = '   ';

export function renderTable(columns: readonly Column[], rows: readonly Row[], theme: Theme): string {
  const cut = rows.map((row) => ({
    ...row,
    cells: row.cells.map((cell, at) => cutTo(cell, columns[at]?.max ?? Number.POSITIVE_INFINITY)),
  }));
  const widths = columns.map((column, at) =>
    Math.max(displayWidth(column.title), ...cut.map((row) => displayWidth(row.cells[at] ?? ''))),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, at) => pad(cell, widths[at] ?? 0, columns[at]?.align ?? 'left', at === columns.length - 1))
      .join(GAP)
      .trimEnd();
  const head = INDENT + theme.paint('dim', line(columns.map((column) => column.title)));
  const body = cut.flatMap((row) => [
    ` ${row.glyph} ${line(row.cells)}`,
    ...(row.below ?? []).map((text) => INDENT + text),
  ]);
  return [head, ...body].join('\n');
}

function pad(cell: string, width: number, align: 'left' | 'right', last: boolean): string {
  const space = ' '.repeat(Math.max(0, width - displayWidth(cell)));
  if (align === 'right') return space + cell;
  return last ? cell : cell + space;
}

/** Cuts a text to a number of columns. */
export function cutTo(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text;
  let kept = '';
  let width = 0;
  for (const character of text) {
    width += displayWidth(character);
    if (width > columns - 1) break;
    kept += character;
  }
  return `${kept}…`;
}

/** Breaks a text between words; the lines after the first are indented. */
export function wrap(text: string, columns: number, indent: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && displayWidth(line) + 1 + displayWidth(word) > columns) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line].join(`\n${indent}`);
}

const WIDE =
  /[\u1100-\u115e\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|[\u{20000}-\u{3fffd}]/u;

/** Columns a text takes on a terminal: wide characters two, combining ones none. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) width += /\p{M}/u.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return width;
}
