/** What transport tests share: events that are recorded and can be awaited, exchanges, and looks at processes. */
import { readFileSync } from 'node:fs';
import type { CloseCause } from '../../src/protocol/exchange.js';
import type {
  Exchange,
  StreamEnd,
  Transport,
  TransportEvents,
  TransportFactory,
  TransportFault,
} from '../../src/transports/transport.js';

export class Recorder implements TransportEvents {
  readonly messages: string[] = [];
  readonly exchanges: (Exchange | null)[] = [];
  readonly faults: TransportFault[] = [];
  readonly heard: string[] = [];
  readonly causes: CloseCause[] = [];
  /** Anything that was told after `closed`. */
  readonly late: string[] = [];
  private readonly waiting: { readonly ready: () => boolean; readonly resolve: () => void }[] = [];

  message(text: string, exchange: Exchange | null): void {
    if (this.causes.length > 0) this.late.push(`message ${text.slice(0, 40)}`);
    this.messages.push(text);
    this.exchanges.push(exchange);
    this.notify();
  }

  overheard(text: string): void {
    if (this.causes.length > 0) this.late.push(`overheard ${text.slice(0, 40)}`);
    this.heard.push(text);
    this.notify();
  }

  fault(fault: TransportFault): void {
    if (this.causes.length > 0) this.late.push(`fault ${fault.kind}`);
    this.faults.push(fault);
    this.notify();
  }

  closed(cause: CloseCause): void {
    this.causes.push(cause);
    this.notify();
  }

  /** Resolves when `ready()` is true, looked at after each event. */
  until(ready: () => boolean): Promise<void> {
    if (ready()) return Promise.resolve();
    return new Promise((resolve) => this.waiting.push({ ready, resolve }));
  }

  async nextMessages(count: number): Promise<string[]> {
    await this.until(() => this.messages.length >= count || this.causes.length > 0);
    return this.messages;
  }

  async cause(): Promise<CloseCause> {
    await this.until(() => this.causes.length > 0);
    return this.causes[0]!;
  }

  faultKinds(): string[] {
    return this.faults.map((fault) => fault.kind);
  }

  private notify(): void {
    for (let at = this.waiting.length - 1; at >= 0; at -= 1) {
      const { ready, resolve } = this.waiting[at]!;
      if (!ready()) continue;
      this.waiting.splice(at, 1);
      resolve();
    }
  }
}

export interface TestExchange extends Exchange {
  readonly ends: StreamEnd[];
}

let lastId = 0;

export function exchange(options: { id?: number | null; mayWrite?: () => boolean } = {}): TestExchange {
  const ends: StreamEnd[] = [];
  lastId += 1;
  return {
    id: options.id === undefined ? lastId : options.id,
    method: 'test/method',
    headers: undefined,
    written: false,
    redirected: false,
    refusal: null,
    isAwaited: true,
    mayWrite: options.mayWrite ?? (() => true),
    onEnd: (end) => void ends.push(end),
    ends,
  };
}

export interface Opened {
  readonly transport: Transport;
  readonly events: Recorder;
}

export async function opened(factory: TransportFactory): Promise<Opened> {
  const events = new Recorder();
  const transport = factory(events);
  const result = await transport.open();
  if (!result.ok) throw new Error(result.cause.detail);
  return { transport, events };
}

/** Whether a process exists and is no zombie. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z';
  } catch {
    return process.platform !== 'linux';
  }
}

/** Resolves when a process that is no child of this one is gone. */
export async function gone(pid: number): Promise<void> {
  while (isRunning(pid)) await new Promise((resolve) => setTimeout(resolve, 5));
}
