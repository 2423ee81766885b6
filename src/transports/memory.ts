/**
 * A transport without I/O: the far side is an object in the same process. For tests, above all property tests: it
 * delivers whatever the far side says, whenever it says it, and records the texts that were really written.
 */
import type { CloseCause } from '../protocol/exchange.js';
import { ByteLines } from './byteLines.js';
import {
  DEFAULT_MAX_MESSAGE_BYTES,
  type Exchange,
  type OpenResult,
  type StreamEnd,
  type Transport,
  type TransportEvents,
  type TransportFactory,
  type TransportFault,
} from './transport.js';

/** What the far side of a connection can do at any time. After the end of the connection all of it does nothing. */
export interface MemoryControl {
  readonly closed: boolean;
  /**
   * Delivers one message, synchronously.
   *
   * @param exchangeId the request in whose answer stream it comes; dropped if that stream has ended. Absent, or on a
   *   shared stream: outside any answer
   */
  send(text: string, exchangeId?: number): void;
  /** Delivers bytes in a chunk of any size through the framing of stdio. */
  sendBytes(bytes: Buffer): void;
  /** Ends the answer stream of a request. On a shared stream it does nothing. */
  end(exchangeId: number, end: StreamEnd): void;
  /** Tells that a redirect was followed on the way of a request, before anything of its answer is delivered. */
  redirected(exchangeId: number): void;
  /** A text that came with something that can be no valid answer. */
  overheard(text: string): void;
  fault(fault: TransportFault): void;
  /** Ends the connection from the far side. */
  close(cause: CloseCause): void;
  /** The pipe takes nothing more: what is sent waits, unchecked and unwritten, until {@link release}. */
  hold(): void;
  release(): void;
}

/** The message that is being received, as a transport sees it. */
export interface MemoryRequest {
  readonly id: number | null;
  readonly method: string | null;
  readonly headers: Readonly<Record<string, string>> | undefined;
}

/** The far side of one connection. */
export interface MemoryPeer {
  /** Default: the connection opens at once. */
  open?(): OpenResult | Promise<OpenResult>;
  opened?(control: MemoryControl): void;
  /** @param reply delivers one message in the answer stream of this very message; may be called later, and often */
  receive(text: string, reply: (text: string) => void, control: MemoryControl, request: MemoryRequest): void;
  /** This side gave up the answer stream of a request (`perRequestStreams`). */
  aborted?(exchangeId: number): void;
  negotiated?(agreed: { readonly era: 'modern' | 'legacy'; readonly revision: string }): void;
  /** The connection has ended, whoever ended it. The transport's `close()` waits for the promise. */
  closed?(): void | Promise<void>;
}

export interface MemoryOptions {
  /** Makes the far side of each connection. */
  readonly peer: () => MemoryPeer;
  /**
   * As over HTTP: messages carry their exchange, and each exchange ends on its own. Notifications end by themselves
   * with status 202. Default false.
   */
  readonly perRequestStreams?: boolean;
  /** Hears each message written (`out`) and each delivered (`in`), in order. */
  readonly record?: (direction: 'out' | 'in', text: string) => void;
  /** For {@link MemoryControl.sendBytes}. Default {@link DEFAULT_MAX_MESSAGE_BYTES}. */
  readonly maxMessageBytes?: number;
}

export function memoryTransport(options: MemoryOptions): TransportFactory {
  return (events) => new MemoryTransport(options, events);
}

const ACCEPTED: StreamEnd = { kind: 'complete', status: 202, redirected: false };

class MemoryTransport implements Transport {
  readonly kind = 'memory';
  readonly perRequestStreams: boolean;

  private readonly options: MemoryOptions;
  private readonly events: TransportEvents;
  private readonly peer: MemoryPeer;
  private readonly control: MemoryControl;
  /** Requests whose answer stream is open. Empty on a shared stream. */
  private readonly exchanges = new Map<number, Exchange>();
  private waiting: { readonly text: string; readonly exchange: Exchange }[] = [];
  private lines: ByteLines | undefined;
  private opening: Promise<OpenResult> | undefined;
  private ending: Promise<void> | undefined;
  /** Why nothing can be sent any more. */
  private ended: CloseCause | undefined;
  private held = true;

  constructor(options: MemoryOptions, events: TransportEvents) {
    this.options = options;
    this.events = events;
    this.perRequestStreams = options.perRequestStreams ?? false;
    this.peer = options.peer();
    this.control = this.makeControl();
  }

  open(): Promise<OpenResult> {
    this.opening ??= this.start();
    return this.opening;
  }

  send(text: string, exchange: Exchange): void {
    if (this.ended !== undefined) {
      exchange.onEnd({ kind: 'broken', redirected: false, cause: this.ended });
    } else if (this.held) {
      this.waiting.push({ text, exchange });
    } else {
      this.write(text, exchange);
    }
  }

  abort(exchange: Exchange): void {
    if (!this.perRequestStreams || exchange.id === null) return;
    const waitingAt = this.waiting.findIndex((message) => message.exchange === exchange);
    if (waitingAt !== -1) this.waiting.splice(waitingAt, 1);
    if (this.exchanges.get(exchange.id) !== exchange) return;
    this.exchanges.delete(exchange.id);
    this.peer.aborted?.(exchange.id);
  }

  negotiated(agreed: { readonly era: 'modern' | 'legacy'; readonly revision: string }): void {
    this.peer.negotiated?.(agreed);
  }

  close(): Promise<void> {
    return this.finish({ kind: 'host', detail: 'closed by this side' });
  }

  private async start(): Promise<OpenResult> {
    // Only a peer that has something to say about it makes opening take more than one turn of the microtask queue.
    const result = this.peer.open === undefined ? OPENED : await this.peer.open();
    if (!result.ok) return result;
    if (this.ended !== undefined) {
      return {
        ok: false,
        cause: { kind: 'spawn-failed', detail: 'closed before it was opened', terminal: false },
      };
    }
    this.peer.opened?.(this.control);
    this.release();
    return result;
  }

  private write(text: string, exchange: Exchange): void {
    if (!exchange.mayWrite()) {
      exchange.onEnd(WITHHELD);
      return;
    }
    exchange.written = true;
    const { id, method, headers } = exchange;
    if (this.perRequestStreams && id !== null) this.exchanges.set(id, exchange);
    this.options.record?.('out', text);
    const reply = (answer: string): void => this.deliver(answer, exchange);
    this.peer.receive(text, reply, this.control, { id, method, headers });
    if (this.perRequestStreams && id === null && this.ended === undefined) exchange.onEnd(ACCEPTED);
  }

  private deliver(text: string, exchange: Exchange | null): void {
    if (this.ended !== undefined) return;
    const streamed = this.perRequestStreams && exchange !== null;
    if (streamed && (exchange.id === null || this.exchanges.get(exchange.id) !== exchange)) return;
    this.options.record?.('in', text);
    this.events.message(text, streamed ? exchange : null);
  }

  private release(): void {
    this.held = false;
    while (!this.held && this.ended === undefined) {
      const next = this.waiting.shift();
      if (next === undefined) return;
      this.write(next.text, next.exchange);
    }
  }

  private finish(cause: CloseCause): Promise<void> {
    if (this.ended === undefined) {
      // Bytes without a line end are told before the connection counts as ended.
      this.lines?.end();
      this.ended = cause;
      let gone: (what: void | Promise<void>) => void = () => undefined;
      // Made first: whoever hears that the connection ended may close it at once, and waits for the far side as well.
      this.ending = new Promise((resolve) => {
        gone = resolve;
      });
      const open = [...this.exchanges.values(), ...this.waiting.map(({ exchange }) => exchange)];
      this.waiting = [];
      this.exchanges.clear();
      for (const exchange of open) exchange.onEnd({ kind: 'broken', redirected: false, cause });
      this.events.closed(cause);
      gone(this.peer.closed?.());
    }
    return this.ending ?? Promise.resolve();
  }

  private makeControl(): MemoryControl {
    const isEnded = (): boolean => this.ended !== undefined;
    return {
      get closed() {
        return isEnded();
      },
      send: (text, exchangeId) => {
        const shared = exchangeId === undefined || !this.perRequestStreams;
        const exchange = shared ? null : this.exchanges.get(exchangeId);
        if (exchange !== undefined) this.deliver(text, exchange);
      },
      sendBytes: (bytes) => {
        if (this.ended === undefined) this.framing().push(bytes);
      },
      end: (exchangeId, end) => {
        const exchange = this.exchanges.get(exchangeId);
        if (exchange === undefined || this.ended !== undefined) return;
        this.exchanges.delete(exchangeId);
        exchange.onEnd(end);
      },
      redirected: (exchangeId) => {
        const exchange = this.exchanges.get(exchangeId);
        if (exchange !== undefined) exchange.redirected = true;
      },
      overheard: (text) => {
        if (this.ended === undefined) this.events.overheard(text);
      },
      fault: (fault) => {
        if (this.ended === undefined) this.events.fault(fault);
      },
      close: (cause) => void this.finish(cause),
      hold: () => {
        this.held = true;
      },
      release: () => this.release(),
    };
  }

  private framing(): ByteLines {
    this.lines ??= new ByteLines(
      {
        line: (text) => this.deliver(text, null),
        overheard: (text) => this.events.overheard(text),
        fault: (fault) => this.events.fault(fault),
        flooded: (detail) => void this.finish({ kind: 'protocol', detail }),
      },
      { maxMessageBytes: this.options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES },
    );
    return this.lines;
  }
}

const OPENED: OpenResult = { ok: true };
const WITHHELD: StreamEnd = { kind: 'withheld' };
