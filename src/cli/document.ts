/** A JSON document with comments: read, bounded, and every value findable by line and column. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { findNodeAtLocation, type Node, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';
import { ConfigurationError, type PathSegment, type Position } from '../host/errors.js';

/** Longest file that is read, 1 MiB: a configuration of a thousand peers has a tenth of it. */
export const MAX_FILE_BYTES = 1024 * 1024;
/** Deepest nesting: what is configured here needs five levels. */
const MAX_DEPTH = 64;
const NONBLOCKING_READ = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

export interface Document {
  readonly file: string;
  readonly root: unknown;
  /** Where a value stands, or the innermost thing around it that exists. */
  positionOf(segments: readonly PathSegment[]): Position | undefined;
}

/** @throws {ConfigurationError} unreadable, too long, no JSON, or a key twice in one object */
export async function readDocument(file: string): Promise<Document> {
  return parseDocument(file, await readBounded(file));
}

/** @throws {ConfigurationError} */
export function parseDocument(file: string, text: string): Document {
  const fail = (
    came: string,
    allowed: string,
    offset?: number,
    segments: readonly PathSegment[] = [],
  ): never => {
    const position = offset === undefined ? undefined : positionAt(text, offset);
    throw new ConfigurationError({ file, segments, came, allowed, position });
  };

  const errors: ParseError[] = [];
  let tree: Node | undefined;
  try {
    tree = parseTree(text, errors, { allowTrailingComma: true });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    fail('a document that is nested too deep', `at most ${MAX_DEPTH} levels`);
  }
  const [first] = errors;
  if (first !== undefined || tree === undefined) {
    const what = first === undefined ? 'nothing' : words(printParseErrorCode(first.error));
    return fail(`a syntax error (${what})`, 'JSON, also with comments', first?.offset ?? 0);
  }
  const root = tree;

  const plainValue = (node: Node, segments: readonly PathSegment[]): unknown => {
    if (segments.length > MAX_DEPTH)
      fail('a document that is nested too deep', `at most ${MAX_DEPTH} levels`, node.offset);
    if (node.type === 'array')
      return (node.children ?? []).map((child, index) => plainValue(child, [...segments, index]));
    if (node.type !== 'object') return node.value;
    const entries = new Map<string, unknown>();
    for (const property of node.children ?? []) {
      const [key, value] = property.children ?? [];
      const name = String(key?.value);
      if (entries.has(name))
        fail('this key a second time', 'each key once', property.offset, [...segments, name]);
      entries.set(name, value === undefined ? undefined : plainValue(value, [...segments, name]));
    }
    // Not by assignment: `__proto__` must become a key like any other, and be refused as one.
    return Object.fromEntries(entries);
  };

  return {
    file,
    root: plainValue(root, []),
    positionOf(segments) {
      for (let length = segments.length; length > 0; length -= 1) {
        const node = findNodeAtLocation(root, segments.slice(0, length));
        if (node !== undefined)
          return positionAt(text, (node.parent?.type === 'property' ? node.parent : node).offset);
      }
      return undefined;
    },
  };
}

async function readBounded(file: string): Promise<string> {
  const fail = (came: string, allowed = 'a readable file'): never => {
    throw new ConfigurationError({ file, segments: [], came, allowed });
  };
  // Non-blocking: opening a pipe that nobody writes to must not hang.
  const handle = await open(file, NONBLOCKING_READ).catch((error: NodeJS.ErrnoException) => {
    return fail(error.code === 'ENOENT' ? 'no such file' : `a file that cannot be opened (${error.code})`);
  });
  try {
    const stat = await handle.stat();
    if (!stat.isFile()) fail(stat.isDirectory() ? 'a folder' : 'something that is no file');
    const buffer = Buffer.alloc(MAX_FILE_BYTES + 1);
    let length = 0;
    while (length < buffer.length) {
      const { bytesRead } = await handle.read(buffer, length, buffer.length - length, null);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    if (length > MAX_FILE_BYTES) fail('a longer file', `at most ${MAX_FILE_BYTES} bytes`);
    return new TextDecoder('utf-8', { fatal: true }).decode(buffer.subarray(0, length));
  } catch (error) {
    if (error instanceof TypeError) return fail('bytes that are no UTF-8', 'JSON in UTF-8');
    throw error;
  } finally {
    await handle.close();
  }
}

function positionAt(text: string, offset: number): Position {
  const before = text.slice(0, offset).split(/\r\n|\r|\n/);
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
}

/** `CloseBraceExpected` → `close brace expected`. */
function words(code: string): string {
  return code.replace(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter}`).toLowerCase();
}
