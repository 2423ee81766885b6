/**
 * The recorded wire of a host: what each connection wrote and heard, with time. A recorder wraps any transport, so
 * that hosts and authors of transports can have their own traffic judged by `invariants.ts`.
 */
import type { CloseCause, UnreachableCause } from '../protocol/exchange.js';
import type { Clock } from '../transports/clock.js';
import type {
  Exchange,
  OpenResult,
  StreamEnd,
  Transport,
  TransportEvents,
  TransportFactory,
} from '../transports/transport.js';

/** What the oracle must know of the peer behind a connection. */
export interface RecordedPeer {
  readonly peer: string;
  /** What modern evidence is remembered under (N12); for a custom transport its `identity`. */
  readonly pin: string;
  readonly allowLegacy: boolean;
}

interface Timed {
  readonly atMs: number;
}

interface OnConnection extends Timed {
  /** Number of the connection, from 1 on, unique in the trace. */
  readonly connection: number;
}

/** What a host was told to do. The oracle reads them, since a peer that failed for good may only be probed again so. */
export type HostCommand = 'start' | 'stop' | 'retry' | 'authorize' | 'add' | 'remove' | 'forget';

export type WireEvent =
  | (Timed & {
      readonly kind: 'command';
      readonly command: HostCommand;
      readonly peer: string | null;
      /** For `forget`: the pin forgotten. */
      readonly pin: string | null;
    })
  /** A connection is made. `life`: connections of one configured peer share it; a peer added again has another. */
  | (OnConnection &
      RecordedPeer & { readonly kind: 'open'; readonly life: number; readonly perRequestStreams: boolean })
  | (OnConnection & { readonly kind: 'opened' })
  | (OnConnection & { readonly kind: 'open-failed'; readonly cause: UnreachableCause['kind'] | 'rejected' })
  /** The first byte is handed over. `text` is the whole message; `headers` what came with it (HTTP). */
  | (OnConnection & {
      readonly kind: 'out';
      readonly text: string;
      readonly headers: Readonly<Record<string, string>> | null;
    })
  /** A message was decoded. `exchange`: id of the request in whose answer stream it came; null on a shared stream. */
  | (OnConnection & { readonly kind: 'in'; readonly text: string; readonly exchange: number | null })
  /** A text that can be no valid answer was decoded. */
  | (OnConnection & { readonly kind: 'overheard'; readonly text: string })
  | (OnConnection & { readonly kind: 'redirected'; readonly exchange: number | null })
  | (OnConnection & {
      readonly kind: 'end';
      readonly exchange: number | null;
      readonly end: StreamEnd['kind'];
      readonly status: number | null;
      readonly redirected: boolean;
    })
  /** This side gave up an answer stream. */
  | (OnConnection & { readonly kind: 'abort'; readonly exchange: number | null })
  /** This side asked for the end of the connection. */
  | (OnConnection & { readonly kind: 'close' })
  | (OnConnection & { readonly kind: 'closed'; readonly cause: CloseCause['kind'] })
  /** `close()` has resolved: nothing of the connection is left. */
  | (OnConnection & { readonly kind: 'released' });

/** Records every connection of one host. Wrap each peer's factory with {@link record}; note commands as they are given. */
export class WireTrace {
  readonly events: WireEvent[] = [];
  private readonly clock: Clock;
  private connections = 0;
  private lives = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Wraps the transport of one configured peer. A peer that is configured again is wrapped again. */
  record(peer: RecordedPeer, factory: TransportFactory): TransportFactory {
    this.lives += 1;
    const life = this.lives;
    return (events) => {
      this.connections += 1;
      return new RecordedTransport(this, this.connections, life, peer, factory, events);
    };
  }

  command(command: HostCommand, peer: string | null = null, pin: string | null = null): void {
    this.add({ kind: 'command', command, peer, pin, atMs: this.now() });
  }

  add(event: WireEvent): void {
    this.events.push(event);
  }

  now(): number {
    return this.clock.now();
  }

  /** One line an event, for a failed test. */
  print(): string {
    return this.events.map(printEvent).join('\n');
  }
}

function printEvent(event: WireEvent): string {
  const { kind, atMs, ...rest } = event;
  const { connection, ...details } = rest as { connection?: number } & Record<string, unknown>;
  const where = connection === undefined ? '' : ` #${connection}`;
  const text = Object.entries(details).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  return `${atMs}${where} ${kind} ${text.join(' ')}`;
}

type ConnectionEvent = WireEvent extends infer E
  ? E extends OnConnection
    ? Omit<E, keyof OnConnection>
    : never
  : never;

class RecordedTransport implements Transport {
  readonly kind: string;
  readonly perRequestStreams: boolean;
  private readonly trace: WireTrace;
  private readonly connection: number;
  private readonly inner: Transport;
  private readonly wrapped = new WeakMap<Exchange, RecordedExchange>();
  private closing: Promise<void> | null = null;
  private isOver = false;

  constructor(
    trace: WireTrace,
    connection: number,
    life: number,
    peer: RecordedPeer,
    factory: TransportFactory,
    events: TransportEvents,
  ) {
    this.trace = trace;
    this.connection = connection;
    this.inner = factory(this.eventsFor(events));
    this.kind = this.inner.kind;
    this.perRequestStreams = this.inner.perRequestStreams;
    this.note({ kind: 'open', life, ...peer, perRequestStreams: this.perRequestStreams });
  }

  async open(): Promise<OpenResult> {
    try {
      const result = await this.inner.open();
      this.note(result.ok ? { kind: 'opened' } : { kind: 'open-failed', cause: result.cause.kind });
      return result;
    } catch (error) {
      this.note({ kind: 'open-failed', cause: 'rejected' });
      throw error;
    }
  }

  send(text: string, exchange: Exchange): void {
    const recorded = new RecordedExchange(exchange, text, (event) => this.note(event));
    this.wrapped.set(exchange, recorded);
    this.inner.send(text, recorded);
  }

  abort(exchange: Exchange): void {
    this.note({ kind: 'abort', exchange: exchange.id });
    const recorded = this.wrapped.get(exchange);
    if (recorded !== undefined) this.inner.abort(recorded);
  }

  negotiated(agreed: { readonly era: 'modern' | 'legacy'; readonly revision: string }): void {
    this.inner.negotiated?.(agreed);
  }

  async openServerStream(): Promise<void> {
    await this.inner.openServerStream?.();
  }

  close(): Promise<void> {
    this.closing ??= this.end();
    return this.closing;
  }

  private async end(): Promise<void> {
    this.note({ kind: 'close' });
    try {
      await this.inner.close();
    } finally {
      this.note({ kind: 'released' });
    }
  }

  private note(event: ConnectionEvent): void {
    this.trace.add({ ...event, connection: this.connection, atMs: this.trace.now() } as WireEvent);
  }

  private eventsFor(events: TransportEvents): TransportEvents {
    return {
      message: (text, exchange) => {
        if (!this.isOver) this.note({ kind: 'in', text, exchange: exchange?.id ?? null });
        events.message(text, exchange instanceof RecordedExchange ? exchange.inner : exchange);
      },
      overheard: (text) => {
        if (!this.isOver) this.note({ kind: 'overheard', text });
        events.overheard(text);
      },
      fault: (fault) => events.fault(fault),
      serverStream: (stream) => events.serverStream?.(stream),
      closed: (cause) => {
        if (!this.isOver) this.note({ kind: 'closed', cause: cause.kind });
        this.isOver = true;
        events.closed(cause);
      },
    };
  }
}

/** Stands between a transport and the connection's exchange, and sees the moment of the write. */
class RecordedExchange implements Exchange {
  readonly inner: Exchange;
  private readonly text: string;
  private readonly note: (event: ConnectionEvent) => void;

  constructor(inner: Exchange, text: string, note: (event: ConnectionEvent) => void) {
    this.inner = inner;
    this.text = text;
    this.note = note;
  }

  get id(): number | null {
    return this.inner.id;
  }

  get method(): string | null {
    return this.inner.method;
  }

  get headers(): Readonly<Record<string, string>> | undefined {
    return this.inner.headers;
  }

  get isAwaited(): boolean {
    return this.inner.isAwaited;
  }

  get written(): boolean {
    return this.inner.written;
  }

  set written(value: boolean) {
    if (value && !this.inner.written)
      this.note({ kind: 'out', text: this.text, headers: this.headers ?? null });
    this.inner.written = value;
  }

  get redirected(): boolean {
    return this.inner.redirected;
  }

  set redirected(value: boolean) {
    if (value) this.note({ kind: 'redirected', exchange: this.id });
    this.inner.redirected = value;
  }

  get refusal(): Exchange['refusal'] {
    return this.inner.refusal;
  }

  set refusal(value: Exchange['refusal']) {
    this.inner.refusal = value;
  }

  mayWrite(): boolean {
    return this.inner.mayWrite();
  }

  onEnd(end: StreamEnd): void {
    const status = 'status' in end ? end.status : null;
    const redirected = end.kind !== 'withheld' && end.redirected;
    this.note({ kind: 'end', exchange: this.id, end: end.kind, status, redirected });
    this.inner.onEnd(end);
  }
}
