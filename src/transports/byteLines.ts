/**
 * Framing of newline-delimited messages: bytes in, whole lines out.
 *
 * Lines end at byte 0x0A and nowhere else (2026-07-28 basic/transports, stdio): U+2028 and U+0085 inside a string
 * are text. A line is delivered if it is valid UTF-8, within the limit and begins like JSON; whether it is a message
 * is decided by whoever parses it. JSON is never looked for in the middle of a line.
 */
import { isAscii, isUtf8 } from 'node:buffer';
import type { TransportFault } from './transport.js';

export interface LineSink {
  /** One line without its end. Must not throw. */
  line(text: string): void;
  /** A text that is no valid line, and may still hold what forbids `initialize` (N21). It comes before its fault. */
  overheard(text: string): void;
  fault(fault: TransportFault): void;
  /** Too much came that held no message. Called at most once; nothing is delivered after it. */
  flooded(detail: string): void;
}

export interface ByteLinesOptions {
  readonly maxMessageBytes: number;
  /** Lines of noise accepted between two messages. Default {@link MAX_NOISE_LINES}. */
  readonly maxNoiseLines?: number;
  /** Bytes of noise accepted between two messages. Default: eight times `maxMessageBytes`. */
  readonly maxNoiseBytes?: number;
}

/** A server that logs to stdout writes hundreds of lines while it starts; ten thousand are a loop. */
export const MAX_NOISE_LINES = 10_000;

/** Longest text that is overheard: an error that forbids is short. */
const OVERHEARD_BYTES = 64 * 1024;

/** Chunks below this size are copied together, so that a line that trickles in holds no buffer object a byte. */
const SMALL_CHUNK_BYTES = 4 * 1024;
const GATHER_BYTES = 64 * 1024;

const LF = 0x0a;
const CR = 0x0d;

export class ByteLines {
  private readonly sink: LineSink;
  private readonly maxMessageBytes: number;
  private readonly maxNoiseLines: number;
  private readonly maxNoiseBytes: number;

  /** The begun line, in order; what is in `gather` up to `gathered` comes last. */
  private pieces: Buffer[] = [];
  private gather: Buffer | undefined;
  private gathered = 0;
  private pendingBytes = 0;
  /** The begun line is over the limit: the rest of it is dropped. */
  private discarding = false;

  private noiseLines = 0;
  private noiseBytes = 0;
  private stopped = false;

  constructor(sink: LineSink, options: ByteLinesOptions) {
    this.sink = sink;
    this.maxMessageBytes = options.maxMessageBytes;
    this.maxNoiseLines = options.maxNoiseLines ?? MAX_NOISE_LINES;
    this.maxNoiseBytes = options.maxNoiseBytes ?? options.maxMessageBytes * 8;
  }

  /** Takes a chunk over: the caller must not change it afterwards. */
  push(chunk: Buffer): void {
    if (this.stopped) return;
    let start = 0;
    let end = chunk.indexOf(LF);
    if (end !== -1 && (this.pendingBytes > 0 || this.discarding)) {
      this.finishBegunLine(chunk, end);
      start = end + 1;
      end = chunk.indexOf(LF, start);
    }
    if (end !== -1) {
      // One check for all lines of the chunk; only where it fails, one a line.
      const encoding = encodingOf(chunk);
      while (end !== -1 && !this.stopped) {
        this.takeLine(chunk, start, end, encoding);
        start = end + 1;
        end = chunk.indexOf(LF, start);
      }
    }
    if (start < chunk.length && !this.stopped) this.keep(chunk, start);
  }

  /** No more bytes come. An unterminated rest is reported, never delivered. Idempotent. */
  end(): void {
    if (this.stopped) return;
    this.stopped = true;
    if (this.pendingBytes > 0) {
      const rest = this.takeBegunLine();
      this.overhear(rest, 0, rest.length);
      const shape = beginsJson(rest, 0, rest.length) ? 'begin like a message' : 'are no message';
      this.sink.fault({
        kind: 'unterminated',
        detail: `the output ended without a line end: its last ${rest.length} bytes ${shape}`,
      });
    }
    this.stop();
  }

  /** Drops what is begun and delivers nothing more, not even the rest of the chunk that is being read. */
  stop(): void {
    this.stopped = true;
    this.pieces = [];
    this.gather = undefined;
  }

  private takeLine(bytes: Buffer, start: number, lineEnd: number, encoding: Encoding): void {
    const end = lineEnd > start && bytes[lineEnd - 1] === CR ? lineEnd - 1 : lineEnd;
    if (end - start > this.maxMessageBytes) this.oversize(end - start);
    else if (!beginsJson(bytes, start, end)) this.noise(bytes, start, end);
    else if (encoding !== 'mixed') this.deliver(bytes.toString(encoding, start, end));
    else if (isUtf8(bytes.subarray(start, end))) this.deliver(bytes.toString('utf8', start, end));
    else this.invalid(bytes, start, end);
  }

  private deliver(text: string): void {
    this.noiseLines = 0;
    this.noiseBytes = 0;
    this.sink.line(text);
  }

  private keep(chunk: Buffer, start: number): void {
    const size = chunk.length - start;
    if (this.discarding) {
      this.count(size);
      return;
    }
    // One byte more than a message: it may be the CR of its line end.
    if (this.pendingBytes + size > this.maxMessageBytes + 1) {
      const dropped = this.pendingBytes + size;
      this.dropBegunLine();
      this.discarding = true;
      this.oversize(dropped);
      return;
    }
    this.pendingBytes += size;
    if (size >= SMALL_CHUNK_BYTES) {
      this.sealGather();
      this.pieces.push(start === 0 ? chunk : chunk.subarray(start));
      return;
    }
    let from = start;
    while (from < chunk.length) {
      this.gather ??= Buffer.allocUnsafeSlow(GATHER_BYTES);
      const copied = chunk.copy(this.gather, this.gathered, from);
      this.gathered += copied;
      from += copied;
      if (this.gathered === this.gather.length) this.sealGather();
    }
  }

  /** Moves what was copied together to the pieces; the space behind it stays in use. */
  private sealGather(): void {
    if (this.gather === undefined || this.gathered === 0) return;
    this.pieces.push(this.gather.subarray(0, this.gathered));
    this.gather = this.gathered < this.gather.length ? this.gather.subarray(this.gathered) : undefined;
    this.gathered = 0;
  }

  private takeBegunLine(last?: Buffer): Buffer {
    this.sealGather();
    if (last !== undefined && last.length > 0) this.pieces.push(last);
    const line = this.pieces.length === 1 ? this.pieces[0]! : Buffer.concat(this.pieces);
    this.pieces = [];
    this.pendingBytes = 0;
    return line;
  }

  private dropBegunLine(): void {
    this.pieces = [];
    this.gathered = 0;
    this.pendingBytes = 0;
  }

  private finishBegunLine(chunk: Buffer, end: number): void {
    if (this.discarding) {
      this.discarding = false;
      this.count(end);
      return;
    }
    if (this.pendingBytes + end > this.maxMessageBytes + 1) {
      const dropped = this.pendingBytes + end;
      this.dropBegunLine();
      this.oversize(dropped);
      return;
    }
    const line = this.takeBegunLine(chunk.subarray(0, end));
    this.takeLine(line, 0, line.length, encodingOf(line));
  }

  private noise(bytes: Buffer, start: number, end: number): void {
    const first = firstNonSpace(bytes, start, end);
    // A blank line is no fault, but an endless run of them is a flood like any other.
    if (first < end) {
      this.noiseLines += 1;
      if (hasByteOrderMark(bytes, first)) this.overhear(bytes, first + 3, end);
      this.sink.fault({ kind: 'noise', detail: describeNoise(bytes, first, end) });
    }
    this.count(end - start + 1);
  }

  private invalid(bytes: Buffer, start: number, end: number): void {
    const size = end - start;
    this.noiseLines += 1;
    this.overhear(bytes, start, end);
    this.sink.fault({ kind: 'invalid-utf8', detail: `a line of ${size} bytes that is no valid UTF-8` });
    this.count(size + 1);
  }

  private overhear(bytes: Buffer, start: number, end: number): void {
    if (end - start > OVERHEARD_BYTES || !beginsJson(bytes, start, end)) return;
    this.sink.overheard(bytes.toString('utf8', start, end));
  }

  private oversize(size: number): void {
    this.sink.fault({
      kind: 'oversize',
      detail: `a line of ${size} bytes or more; the limit is ${this.maxMessageBytes}`,
    });
    this.count(size);
  }

  private count(bytes: number): void {
    this.noiseBytes += bytes;
    if (this.stopped) return;
    if (this.noiseLines <= this.maxNoiseLines && this.noiseBytes <= this.maxNoiseBytes) return;
    this.stop();
    this.sink.flooded(
      this.noiseLines > this.maxNoiseLines
        ? `more than ${this.maxNoiseLines} lines came without a message among them`
        : `more than ${this.maxNoiseBytes} bytes came without a message among them`,
    );
  }
}

type Encoding = 'latin1' | 'utf8' | 'mixed';

/** Reading ASCII as Latin-1 is a plain copy, and most traffic is ASCII. `mixed`: valid lines are to be found one by one. */
function encodingOf(bytes: Buffer): Encoding {
  if (isAscii(bytes)) return 'latin1';
  return isUtf8(bytes) ? 'utf8' : 'mixed';
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === CR;
}

function firstNonSpace(bytes: Buffer, start: number, end: number): number {
  let at = start;
  while (at < end && isSpace(bytes[at]!)) at += 1;
  return at;
}

function beginsJson(bytes: Buffer, start: number, end: number): boolean {
  const at = firstNonSpace(bytes, start, end);
  return at < end && (bytes[at] === 0x7b || bytes[at] === 0x5b);
}

function hasByteOrderMark(bytes: Buffer, at: number): boolean {
  return bytes[at] === 0xef && bytes[at + 1] === 0xbb && bytes[at + 2] === 0xbf;
}

/** What kind of noise it is, without a word of it: a line of a log may hold a secret. */
function describeNoise(bytes: Buffer, first: number, end: number): string {
  const line = bytes.subarray(first, end);
  const size = `a line of ${line.length} bytes that is no JSON`;
  if (line.length > 15 && line.toString('latin1', 0, 15).toLowerCase() === 'content-length:') {
    return `${size}: a Content-Length header, which belongs to another framing`;
  }
  if (line[0] === 0xef && line[1] === 0xbb && line[2] === 0xbf)
    return `${size}: it begins with a byte order mark`;
  if (line[0] === 0x1b) return `${size}: it begins with a terminal escape`;
  const brace = line.indexOf(0x7b);
  return brace === -1 ? size : `${size}: a brace follows after ${brace} bytes of other text`;
}
