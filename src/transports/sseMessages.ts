/**
 * Messages out of a `text/event-stream` (WHATWG HTML, "Server-sent events"), from bytes.
 *
 * Works on bytes rather than on text, for four reasons: a character that is cut between two chunks needs no care, a
 * message is checked to be UTF-8 as a whole, sizes are bytes, and an event whose lines end in CR is complete when the
 * CR is there, not when the next byte tells whether an LF follows. Bytes are gathered and joined once an event.
 */
import { isUtf8 } from 'node:buffer';
import { createByteGatherer } from './byteGatherer.js';

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;
const NEW_LINE = Buffer.from([LF]);
const NOTHING = Buffer.alloc(0);
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);
/** Room for `data: ` and a byte order mark in a line that has not ended. */
const FIELD_BYTES = 9;

/** Longest id that is sent back in `Last-Event-ID`: with the other headers it has to fit 16 KiB. */
const MAX_ID_BYTES = 1024;
/** What a header can carry, byte for byte, without being trimmed on its way (RFC 9110, 5.5). */
const HEADER_VALUE = /^[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?$/;

/** Where in a stream its reader is, and what the server says of coming back. */
export interface StreamPlace {
  /**
   * Id of the last event that has one, as the value of `Last-Event-ID`: a character a byte. Empty where there was none,
   * where it was taken back, and where it cannot be sent: the stream cannot be resumed.
   */
  readonly lastEventId: string;
  /** The last `retry`, in ms; null where there was none. Not bounded. */
  readonly retryMs: number | null;
}

export interface SseReader extends StreamPlace {
  /**
   * Takes the next bytes and delivers every event they complete. What follows a bad event within them is dropped.
   *
   * @returns what is wrong, in a sentence; nothing may be pushed after that. `null` where all is well
   */
  push(chunk: Buffer): string | null;
  /** No more bytes. An event that is left unfinished is none, as the standard has it: its data are dropped. */
  end(): void;
}

/**
 * @param maxEventBytes longest event, its comments not counted
 * @param deliver gets the data of each event that may be a message
 * @param drop gets the data of each other event, unless they are too long, and its type: '' for one that is left unfinished
 * @param from where the stream before was left, if this one goes on with it
 */
export function createSseReader(
  maxEventBytes: number,
  deliver: (text: string) => void,
  drop: (data: Buffer, type: string) => void,
  from?: StreamPlace,
): SseReader {
  /** What there is of a line that has not ended. */
  const line = createByteGatherer();
  /** This event's `data` lines, joined by LF. */
  const data = createByteGatherer();
  let hasData = false;
  /** This event is too long; its other `data` lines are not kept either. */
  let overlong = false;
  /** What was wrong first. */
  let problem: string | null = null;
  let type = '';
  /** The id of this event and of those to come; it is the stream's once the event has ended. */
  let id = from?.lastEventId ?? '';
  let skipLf = false;
  let first = true;

  function push(chunk: Buffer): string | null {
    let start = 0;
    if (skipLf && chunk.length > 0) {
      if (chunk[0] === LF) start = 1;
      skipLf = false;
    }
    let lf = chunk.indexOf(LF, start);
    let cr = chunk.indexOf(CR, start);
    while (lf >= 0 || cr >= 0) {
      const endsInCr = cr >= 0 && (lf < 0 || cr < lf);
      const end = endsInCr ? cr : lf;
      endLine(chunk.subarray(start, end));
      start = end + 1;
      if (endsInCr && chunk[start] === LF) start += 1;
      else if (endsInCr && start === chunk.length) skipLf = true;
      if (lf >= 0 && lf < start) lf = chunk.indexOf(LF, start);
      if (endsInCr) cr = chunk.indexOf(CR, start);
    }
    if (start < chunk.length) {
      line.add(start === 0 ? chunk : chunk.subarray(start));
    }
    if (line.size + data.size > maxEventBytes + FIELD_BYTES) tooLong();
    return problem;
  }

  function end(): void {
    if (line.size > 0) endLine(NOTHING);
    const isLeft = hasData && !overlong;
    hasData = false;
    if (isLeft) drop(data.take(), '');
  }

  function endLine(rest: Buffer): void {
    let whole = rest;
    if (line.size > 0) {
      line.add(rest);
      whole = line.take();
    }
    if (first) {
      first = false;
      if (whole.subarray(0, 3).equals(BYTE_ORDER_MARK)) whole = whole.subarray(3);
    }
    if (whole.length === 0) endEvent();
    else takeField(whole);
  }

  function takeField(whole: Buffer): void {
    if (whole[0] === COLON) return;
    const colon = whole.indexOf(COLON);
    const nameEnd = colon < 0 ? whole.length : colon;
    const value = whole.subarray(whole[nameEnd + 1] === SPACE ? nameEnd + 2 : nameEnd + 1);
    if (isName(whole, nameEnd, 'data')) {
      if (overlong) return;
      if (hasData) data.add(NEW_LINE);
      hasData = true;
      data.add(value);
      if (data.size > maxEventBytes) tooLong();
    } else if (isName(whole, nameEnd, 'event')) {
      type = value.toString('latin1', 0, 64);
    } else if (isName(whole, nameEnd, 'id')) {
      if (!value.includes(0)) id = usableId(value);
    } else if (isName(whole, nameEnd, 'retry')) {
      reader.retryMs = milliseconds(value) ?? reader.retryMs;
    }
  }

  function endEvent(): void {
    const eventType = type;
    const isWhole = hasData && !overlong;
    type = '';
    hasData = false;
    overlong = false;
    // Also of an event without data: that is how a server primes a stream.
    reader.lastEventId = id;
    if (!isWhole) return;
    const bytes = data.take();
    if (!isUtf8(bytes)) problem ??= 'an event is not valid UTF-8';
    const text = problem === null ? bytes.toString('utf8') : '';
    if (problem === null && mayBeMessage(eventType, text)) deliver(text);
    else drop(bytes, eventType);
  }

  function tooLong(): void {
    overlong = true;
    data.take();
    problem ??= `an event is longer than ${maxEventBytes} bytes`;
  }

  // Plain members: one reader is made an answer, and accessors cost a lot to make.
  const reader: { -readonly [Member in keyof SseReader]: SseReader[Member] } = {
    lastEventId: id,
    retryMs: from?.retryMs ?? null,
    push,
    end,
  };
  return reader;
}

function usableId(value: Buffer): string {
  if (value.length > MAX_ID_BYTES) return '';
  const text = value.toString('latin1');
  return HEADER_VALUE.test(text) ? text : '';
}

function milliseconds(value: Buffer): number | null {
  const text = value.toString('latin1');
  return /^[0-9]+$/.test(text) ? Number(text) : null;
}

function isName(whole: Buffer, nameEnd: number, name: 'data' | 'event' | 'id' | 'retry'): boolean {
  return nameEnd === name.length && whole.toString('latin1', 0, nameEnd) === name;
}

/**
 * Empty data primes a resumable stream (2025-11-25, basic/transports) and is no message. Other types than `message`
 * are keep-alives of some servers, unless what they bring says that it is JSON-RPC. Whoever reads the events may still
 * look at what is dropped: an error under `event: error` may be what forbids `initialize` (N21).
 */
function mayBeMessage(type: string, text: string): boolean {
  if (type === '' || type === 'message') return /\S/.test(text);
  return text.includes('"jsonrpc"');
}
