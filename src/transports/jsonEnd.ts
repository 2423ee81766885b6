/** Where a JSON object or array that arrives in pieces is whole, told without parsing it again and again. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
/** White space of JSON, and the bytes of a byte order mark. */
const BEFORE_VALUE: ReadonlySet<number> = new Set([0x09, 0x0a, 0x0d, 0x20, 0xef, 0xbb, 0xbf]);

export interface JsonEnd {
  /** Takes the next bytes. True once: when the last bracket of the first value is among them. */
  push(bytes: Buffer): boolean;
}

/** Counts brackets outside of strings, each byte once. A value that is no object and no array has no end here. */
export function createJsonEnd(): JsonEnd {
  let depth = 0;
  let inString = false;
  let escaped = false;
  let over = false;

  function step(byte: number): void {
    if (inString) {
      if (escaped) escaped = false;
      else if (byte === BACKSLASH) escaped = true;
      else if (byte === QUOTE) inString = false;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      depth += 1;
    } else if (depth === 0) {
      over = !BEFORE_VALUE.has(byte);
    } else if (byte === QUOTE) {
      inString = true;
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      depth -= 1;
      over = depth === 0;
    }
  }

  return {
    push(bytes) {
      if (over) return false;
      for (const byte of bytes) {
        const wasOpen = depth > 0;
        step(byte);
        if (over) return wasOpen;
      }
      return false;
    },
  };
}

/** Whether these bytes hold a whole object or array. */
export function holdsWholeJson(bytes: Buffer): boolean {
  return createJsonEnd().push(bytes);
}
