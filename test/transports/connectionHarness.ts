/** What tests of connections share: dialects, events that are recorded and can be awaited, a far side in memory. */
import { expect, onTestFinished } from 'vitest';
import { createIdSource, type JsonObject } from '../../src/protocol/jsonRpc.js';
import { legacyDialect } from '../../src/protocol/legacy.js';
import { modernDialect } from '../../src/protocol/modern.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import type { Clock } from '../../src/transports/clock.js';
import { Connection, type ConnectionEvents, type FaultKind } from '../../src/transports/connection.js';
import { type MemoryControl, type MemoryPeer, memoryTransport } from '../../src/transports/memory.js';
import type { TransportFactory } from '../../src/transports/transport.js';

export const modern = modernDialect({
  revision: '2026-07-28',
  clientInfo: { name: 'test', version: '1.0.0' },
  clientCapabilities: {},
});
export const legacy = legacyDialect({ revision: '2025-11-25' });

export interface Heard {
  /** The events, in order: name and arguments. */
  readonly events: unknown[][];
  readonly listener: ConnectionEvents;
  /** Kinds of the faults so far, in order. */
  faults(): FaultKind[];
  /** Methods and params of the notifications so far, in order. */
  notifications(): { readonly method: string; readonly params: JsonObject | undefined }[];
  /** Resolves when `ready()` is true, looked at after each event. */
  until(ready: () => boolean): Promise<void>;
}

export function hear(): Heard {
  const events: unknown[][] = [];
  let waiting: { readonly ready: () => boolean; readonly resolve: () => void }[] = [];
  const heard =
    (name: string) =>
    (...args: unknown[]): void => {
      events.push([name, ...args]);
      const now = waiting.filter(({ ready }) => ready());
      waiting = waiting.filter((one) => !now.includes(one));
      for (const { resolve } of now) resolve();
    };
  const named = (name: string): unknown[][] => events.filter(([event]) => event === name);
  return {
    events,
    listener: {
      modernSign: heard('modernSign'),
      notification: heard('notification'),
      serverRequest: heard('serverRequest'),
      serverCancelled: heard('serverCancelled'),
      fault: heard('fault'),
      closed: heard('closed'),
    },
    faults: () => named('fault').map(([, kind]) => kind as FaultKind),
    notifications: () =>
      named('notification').map(([, method, params]) => ({
        method: method as string,
        params: params as JsonObject | undefined,
      })),
    until: (ready) =>
      ready() ? Promise.resolve() : new Promise((resolve) => waiting.push({ ready, resolve })),
  };
}

/** An open connection that is closed when the test is over. */
export async function connectTo(transport: TransportFactory, clock: Clock) {
  const heard = hear();
  const connection = new Connection({
    transport,
    clock,
    ids: createIdSource(7),
    maxTotalMs: 10_000,
    events: heard.listener,
  });
  onTestFinished(() => connection.close());
  expect(await connection.open(10_000)).toEqual({ ok: true });
  return { connection, heard };
}

interface Setup {
  readonly perRequestStreams?: boolean;
  readonly receive?: MemoryPeer['receive'];
  readonly aborted?: MemoryPeer['aborted'];
}

/** A connection in memory, on a clock that is moved by hand. */
export async function connect(setup: Setup = {}) {
  const clock = createSimulatedClock();
  const written: string[] = [];
  let control: MemoryControl | undefined;
  const transport = memoryTransport({
    perRequestStreams: setup.perRequestStreams ?? false,
    record: (direction, text) => {
      if (direction === 'out') written.push(text);
    },
    peer: () => ({
      opened: (own) => {
        control = own;
      },
      receive: setup.receive ?? (() => undefined),
      ...(setup.aborted === undefined ? {} : { aborted: setup.aborted }),
    }),
  });
  const { connection, heard } = await connectTo(transport, clock);
  return {
    connection,
    clock,
    written,
    heard,
    events: heard.events,
    control: control as unknown as MemoryControl,
  };
}
