/**
 * Messages on their way into a pipe: in order, whole, bounded, each checked in the tick of its own write.
 *
 * The first message after something was read is written at once, those that follow go out together in one write at
 * the end of their tick: a host with many calls in flight makes a few system calls instead of one a message, and one
 * with a single call in flight pays nothing for it.
 */
import type { Writable } from 'node:stream';
import type { CloseCause } from '../protocol/exchange.js';
import type { Exchange, StreamEnd } from './transport.js';

/**
 * Longest queue behind a pipe that takes no more, in UTF-16 units of text. Four messages of the largest size that
 * peers accept by default; behind that the process is not reading.
 */
export const MAX_QUEUED_CHARS = 64 * 1024 * 1024;

/** Messages are joined up to this size. Larger joins save nothing and would ask `mayWrite` earlier than needed. */
const JOIN_CHARS = 64 * 1024;

/** Where a queue that is never empty gives back the space of what has been written. */
const COMPACT_AT = 1024;

const WITHHELD: StreamEnd = { kind: 'withheld' };

export class Outbox {
  private pipe: Writable | undefined;
  private readonly maxQueuedChars: number;
  private texts: string[] = [];
  private exchanges: Exchange[] = [];
  private head = 0;
  private queuedChars = 0;
  /** The pipe takes nothing now: it is not there yet, or it is full. */
  private blocked = true;
  /** A message was written at once since {@link turn}: the next ones are joined. */
  private joining = false;
  private flushIsDue = false;
  private ended: CloseCause | undefined;
  private readonly atTickEnd: () => void;

  constructor(maxQueuedChars: number = MAX_QUEUED_CHARS) {
    this.maxQueuedChars = maxQueuedChars;
    this.atTickEnd = () => {
      this.flushIsDue = false;
      this.joining = false;
      this.flush();
    };
  }

  /** From now on messages go into this pipe. Called once. The owner of the pipe handles its errors. */
  attach(pipe: Writable): void {
    this.pipe = pipe;
    pipe.on('drain', () => {
      this.blocked = false;
      this.flush();
    });
    this.blocked = false;
    this.flush();
  }

  /** Something came from the process: a message that answers it shall not wait. */
  turn(): void {
    this.joining = false;
  }

  send(text: string, exchange: Exchange): void {
    if (this.ended !== undefined) {
      exchange.onEnd({ kind: 'broken', redirected: false, cause: this.ended });
      return;
    }
    if (this.blocked || this.joining || this.head < this.texts.length) {
      this.enqueue(text, exchange);
      return;
    }
    if (!exchange.mayWrite()) {
      exchange.onEnd(WITHHELD);
      return;
    }
    exchange.written = true;
    this.write(`${text}\n`);
    this.joining = true;
  }

  /** Writes what is joined so far now, as far as the pipe takes it: its tick may be the last one. */
  hurry(): void {
    this.flush();
  }

  /** Nothing is written any more. What waits in the queue, and what is sent later, ends as broken. Idempotent. */
  fail(cause: CloseCause): void {
    if (this.ended !== undefined) return;
    this.ended = cause;
    const waiting = this.exchanges.slice(this.head);
    this.texts = [];
    this.exchanges = [];
    this.head = 0;
    this.queuedChars = 0;
    for (const exchange of waiting) exchange.onEnd({ kind: 'broken', redirected: false, cause });
  }

  private enqueue(text: string, exchange: Exchange): void {
    if (this.queuedChars + text.length > this.maxQueuedChars) {
      const detail = `the process does not read its input: ${this.queuedChars} characters wait already`;
      exchange.onEnd({ kind: 'broken', redirected: false, cause: { kind: 'protocol', detail } });
      return;
    }
    this.queuedChars += text.length;
    this.texts.push(text);
    this.exchanges.push(exchange);
    // A pipe that is blocked flushes when it drains.
    if (this.blocked || this.flushIsDue) return;
    this.flushIsDue = true;
    process.nextTick(this.atTickEnd);
  }

  private flush(): void {
    let joined = '';
    while (!this.blocked && this.head < this.texts.length) {
      const text = this.texts[this.head]!;
      const exchange = this.exchanges[this.head]!;
      this.head += 1;
      this.queuedChars -= text.length;
      if (exchange.mayWrite()) {
        exchange.written = true;
        joined += `${text}\n`;
        if (joined.length < JOIN_CHARS && this.head < this.texts.length) continue;
      }
      // Before the owner of a withheld message hears of it: it may close this transport.
      if (joined !== '') this.write(joined);
      joined = '';
      if (!exchange.written) exchange.onEnd(WITHHELD);
    }
    this.compact();
  }

  private write(text: string): void {
    if (this.pipe?.write(text) !== true) this.blocked = true;
  }

  private compact(): void {
    if (this.head === this.texts.length) {
      this.texts.length = 0;
      this.exchanges.length = 0;
      this.head = 0;
    } else if (this.head >= COMPACT_AT) {
      this.texts.splice(0, this.head);
      this.exchanges.splice(0, this.head);
      this.head = 0;
    }
  }
}
