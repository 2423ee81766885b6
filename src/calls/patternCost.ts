/**
 * How long a regular expression can take at worst. Patterns come from servers and run on this thread, where nothing
 * can interrupt a backtracking match, so a pattern is run only where its worst case fits into a budget.
 *
 * First form: the count of ways in which a backtracking matcher can go wrong. Alternatives add, parts in sequence
 * multiply, an unbounded repetition of a part without choices is a factor of the length of the text, and an unbounded
 * repetition of a part that has choices of its own (`(a+)+`, `(a|b)*`) is never run: it may be harmless, and telling
 * that needs more than this. The estimate is above the real cost, often far above; who skips a pattern says so.
 */

/** Longest pattern that is read, in UTF-16 units. */
export const MAX_PATTERN_LENGTH = 1_000;

export interface Pattern {
  readonly source: string;
  /** Steps that a match against a text of this length may take at worst. */
  worstCase(textLength: number): number;
  test(text: string): boolean;
}

/** Reads a pattern; `null` if it is too long, no valid expression, or of unbounded cost. */
export function readPattern(source: string): Pattern | null {
  if (source.length > MAX_PATTERN_LENGTH) return null;
  const expression = compile(source);
  if (expression === null) return null;
  const cost = new CostReader(source).read();
  if (!Number.isFinite(cost.ways) || !Number.isFinite(cost.degree)) return null;
  const factor = cost.size * cost.ways;
  return {
    source,
    worstCase: (textLength) => factor * Math.max(textLength, 1) ** cost.degree,
    test: (text) => expression.test(text),
  };
}

/** With `u` as JSON Schema wants it; without for the many patterns in the field that escape too much. */
function compile(source: string): RegExp | null {
  try {
    return new RegExp(source, 'u');
  } catch {
    try {
      return new RegExp(source);
    } catch {
      return null;
    }
  }
}

interface Cost {
  /** Ways through the part that do not depend on the text. 1: no choice. */
  readonly ways: number;
  /** Exponent of the length of the text. */
  readonly degree: number;
  /** Atoms on one way. */
  readonly size: number;
}

const ATOM: Cost = { ways: 1, degree: 0, size: 1 };
const EMPTY: Cost = { ways: 1, degree: 0, size: 0 };
const ENDLESS: Cost = { ways: Number.POSITIVE_INFINITY, degree: 0, size: 1 };

const QUANTIFIER = /(?:[*+?]|\{(\d+)(?:(,)(\d*))?\})\??/y;
const LONG_ESCAPE = /\\(?:[pPu]\{[^}]*\}|k<[^>]*>|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|c[A-Za-z])/y;
const GROUP_START = /\((?:\?(?:[:=!]|<[=!]|<[^>]*>))?/y;

/** Reads valid expressions only; on others its answer means nothing, and it still ends. */
class CostReader {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  read(): Cost {
    const cost = this.#alternatives();
    // Without an anchor the search starts again at each place of the text.
    const isAnchored = this.#source.startsWith('^') && !hasTopLevelBar(this.#source);
    return isAnchored ? cost : { ...cost, degree: cost.degree + 1 };
  }

  #alternatives(): Cost {
    let total = this.#sequence();
    while (this.#source[this.#at] === '|') {
      this.#at += 1;
      const next = this.#sequence();
      total = {
        ways: total.ways + next.ways,
        degree: Math.max(total.degree, next.degree),
        size: Math.max(total.size, next.size),
      };
    }
    return total;
  }

  #sequence(): Cost {
    let total = EMPTY;
    while (this.#at < this.#source.length) {
      const next = this.#source[this.#at];
      if (next === '|' || next === ')') break;
      const atom = this.#repeated(this.#atom());
      total = {
        ways: total.ways * atom.ways,
        degree: total.degree + atom.degree,
        size: total.size + atom.size,
      };
    }
    return total;
  }

  #atom(): Cost {
    const character = this.#source[this.#at];
    if (character === '(') return this.#group();
    if (character === '[') return this.#class();
    if (character === '\\') return this.#escape();
    this.#at += 1;
    return ATOM;
  }

  #group(): Cost {
    this.#take(GROUP_START);
    const inner = this.#alternatives();
    this.#at += 1;
    return { ...inner, size: inner.size + 1 };
  }

  #class(): Cost {
    this.#at += 1;
    while (this.#at < this.#source.length && this.#source[this.#at] !== ']') {
      this.#at += this.#source[this.#at] === '\\' ? 2 : 1;
    }
    this.#at += 1;
    return ATOM;
  }

  #escape(): Cost {
    const escaped = this.#source[this.#at + 1] ?? '';
    if (this.#take(LONG_ESCAPE) === null) this.#at += 2;
    // A back reference compares as much text as its group took.
    return escaped === 'k' || (escaped >= '1' && escaped <= '9') ? { ways: 1, degree: 1, size: 1 } : ATOM;
  }

  #repeated(part: Cost): Cost {
    const match = this.#take(QUANTIFIER);
    if (match === null) return part;
    const hasChoice = part.ways > 1 || part.degree > 0;
    const sign = match[0][0];
    if (sign === '?') return { ...part, ways: part.ways + 1 };
    const least = sign === '{' ? Number(match[1]) : 0;
    const isExact = sign === '{' && match[2] === undefined;
    const most = isExact
      ? least
      : sign === '{' && match[3] !== ''
        ? Number(match[3])
        : Number.POSITIVE_INFINITY;
    if (most === Number.POSITIVE_INFINITY) {
      return hasChoice ? ENDLESS : { ways: 1, degree: 1, size: part.size * Math.max(least, 1) };
    }
    return {
      ways: part.ways ** most * Math.max(most - least + 1, 1),
      degree: part.degree * most,
      size: part.size * Math.max(most, 1),
    };
  }

  #take(expression: RegExp): RegExpExecArray | null {
    expression.lastIndex = this.#at;
    const match = expression.exec(this.#source);
    if (match !== null) this.#at += match[0].length;
    return match;
  }
}

/** Whether the expression has alternatives outside every group, so that a leading `^` binds the first one only. */
function hasTopLevelBar(source: string): boolean {
  let depth = 0;
  let isInClass = false;
  for (let at = 0; at < source.length; at += 1) {
    const character = source[at];
    if (character === '\\') at += 1;
    else if (isInClass) isInClass = character !== ']';
    else if (character === '[') isInClass = true;
    else if (character === '(') depth += 1;
    else if (character === ')') depth -= 1;
    else if (character === '|' && depth === 0) return true;
  }
  return false;
}
