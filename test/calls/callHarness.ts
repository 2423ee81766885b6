/** A host over a server in memory that does nothing by itself with calls, in simulated time. */
import { getEventListeners } from 'node:events';
import { afterEach, expect } from 'vitest';
import type { CustomPeerConfig } from '../../src/host/config.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock, type SimulatedClock } from '../../src/testing/clock.js';
import { type MemoryControl, memoryTransport } from '../../src/transports/memory.js';
import type { StreamEnd, TransportFactory } from '../../src/transports/transport.js';
import { tool } from '../host/fakes.js';

const hosts: Host[] = [];
afterEach(() => Promise.all(hosts.splice(0).map((host) => host.stop())));

/** What the microtasks and their successors do is done. */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** A call as the server heard it. */
export interface HeardCall {
  readonly id: number;
  readonly tool: string;
  readonly params: JsonObject;
  readonly meta: JsonObject;
  /** Which connection it came on, from 0. */
  readonly connection: number;
  answer(more?: JsonObject): void;
  refuse(code: number): void;
  progress(): void;
  /** Ends its stream (`perRequestStreams`). */
  end(end: StreamEnd): void;
}

export interface ServerOptions {
  readonly perRequestStreams?: boolean;
  readonly tools?: readonly (string | JsonObject)[];
  /** It is listened to for changes of its tools. */
  readonly announces?: boolean;
  readonly era?: 'modern' | 'legacy';
  readonly more?: Partial<CustomPeerConfig>;
  /** Stands between the host and the transport in memory. */
  readonly wrap?: (inner: TransportFactory) => TransportFactory;
}

let identities = 0;

/** It negotiates and lists; what becomes of a call is up to the test. */
export class CallServer {
  readonly config: CustomPeerConfig;
  /** Every request and notification, in order, over all connections. */
  readonly methods: string[] = [];
  readonly ids: number[] = [];
  readonly calls: HeardCall[] = [];
  readonly controls: MemoryControl[] = [];
  /** Ids of requests that were cancelled by a notification or by closing their streams. */
  readonly cancelled: number[] = [];
  tools: readonly (string | JsonObject)[];
  /** `silent`: it opens and answers nothing; `refused`: it does not open. */
  mood: 'well' | 'silent' | 'refused' = 'well';
  /** Listings wait until {@link answerListings}. */
  holdsListings = false;
  private readonly listings: (() => void)[] = [];
  private readonly waiting: ((call: HeardCall) => void)[] = [];
  private taken = 0;
  private listenId = 0;

  constructor(options: ServerOptions = {}) {
    const { perRequestStreams = false, announces = false, era = 'modern' } = options;
    this.tools = options.tools ?? ['work'];
    identities += 1;
    this.config = {
      identity: `calls-${identities}`,
      allowLegacy: era === 'legacy',
      ...options.more,
      createTransport: (options.wrap ?? ((inner: TransportFactory) => inner))(
        memoryTransport({
          perRequestStreams,
          peer: () => ({
            open: () =>
              this.mood === 'refused'
                ? { ok: false, cause: { kind: 'spawn-failed', detail: 'refused', terminal: false } }
                : { ok: true },
            opened: (control) => void this.controls.push(control),
            aborted: (id) => void this.cancelled.push(id),
            receive: (text, reply) => {
              const message = JSON.parse(text) as JsonObject;
              const method = message['method'] as string;
              this.methods.push(method);
              const params = (message['params'] ?? {}) as JsonObject;
              if (method === 'notifications/cancelled') this.cancelled.push(params['requestId'] as number);
              const id = message['id'] as number | undefined;
              if (id === undefined) return;
              this.ids.push(id);
              if (this.mood === 'silent') return;
              const say = (more: JsonObject): void => reply(JSON.stringify({ jsonrpc: '2.0', id, ...more }));
              const result = (value: JsonObject): void =>
                say({ result: { resultType: 'complete', ...value } });
              const capabilities = { tools: announces ? { listChanged: true } : {} };
              switch (method) {
                case 'server/discover':
                  if (era === 'modern') result({ supportedVersions: ['2026-07-28'], capabilities });
                  else say({ error: { code: -32601, message: 'Method not found' } });
                  return;
                case 'initialize':
                  result({
                    protocolVersion: '2025-11-25',
                    capabilities,
                    serverInfo: { name: 'old', version: '1.0.0' },
                  });
                  return;
                case 'tools/list':
                  this.listings.push(() => result({ tools: this.tools.map((one) => definition(one)) }));
                  if (!this.holdsListings) this.answerListings();
                  return;
                case 'subscriptions/listen':
                  this.listenId = id;
                  reply(
                    JSON.stringify({
                      jsonrpc: '2.0',
                      method: 'notifications/subscriptions/acknowledged',
                      params: {
                        notifications: { toolsListChanged: true },
                        _meta: { 'io.modelcontextprotocol/subscriptionId': id },
                      },
                    }),
                  );
                  return;
                case 'tools/call':
                  this.heard(id, params, say, reply);
              }
            },
          }),
        }),
      ),
    };
  }

  /** Says that its tools changed. */
  announce(): void {
    this.control.send(
      JSON.stringify({
        jsonrpc: '2.0',
        method: 'notifications/tools/list_changed',
        params: { _meta: { 'io.modelcontextprotocol/subscriptionId': this.listenId } },
      }),
    );
  }

  get control(): MemoryControl {
    return this.controls.at(-1) as MemoryControl;
  }

  answerListings(): void {
    for (const answer of this.listings.splice(0)) answer();
  }

  /** The next call that the server hears; each is given once. */
  next(): Promise<HeardCall> {
    const heard = this.calls[this.taken];
    this.taken += 1;
    if (heard !== undefined) return Promise.resolve(heard);
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  lose(): void {
    this.control.close({ kind: 'exit', detail: 'exit 1', exitCode: 1 });
  }

  private heard(
    id: number,
    params: JsonObject,
    say: (more: JsonObject) => void,
    reply: (text: string) => void,
  ) {
    const meta = (params['_meta'] ?? {}) as JsonObject;
    const { control } = this;
    const call: HeardCall = {
      id,
      tool: params['name'] as string,
      params,
      meta,
      connection: this.controls.length - 1,
      answer: (more = {}) => say({ result: { resultType: 'complete', content: [], ...more } }),
      refuse: (code) => say({ error: { code, message: 'no' } }),
      progress: () =>
        reply(
          JSON.stringify({
            jsonrpc: '2.0',
            method: 'notifications/progress',
            params: { progressToken: meta['progressToken'] ?? null, progress: 1 },
          }),
        ),
      end: (end) => control.end(id, end),
    };
    this.calls.push(call);
    this.waiting.shift()?.(call);
  }
}

const definition = (one: string | JsonObject): JsonObject => (typeof one === 'string' ? tool(one) : one);

export interface Setting {
  readonly host: Host;
  readonly clock: SimulatedClock;
  readonly server: CallServer;
  /** Time passes, and what it brings has happened. */
  pass(ms: number): Promise<void>;
  /** Nothing of any call is left: no slot, no place in the queue, nothing on the wire. */
  expectIdle(): void;
}

export async function setting(
  server: CallServer = new CallServer(),
  options: Omit<CreateHostOptions, 'peers'> = {},
): Promise<Setting> {
  const clock = createSimulatedClock();
  const host = createHost({
    clock,
    // Backoff and jitter are as long as they can be.
    random: () => 0.999_999,
    backoffMinMs: 1_000,
    backoffMaxMs: 1_000,
    maxAttempts: 100,
    breakerThreshold: 0,
    ...options,
    peers: { it: server.config },
  });
  hosts.push(host);
  await host.start();
  // The validators are there, so that a call is on its way within a few turns.
  for (const name of host.catalog().entries.keys()) await host.call(name, { q: 1 });
  return {
    host,
    clock,
    server,
    async pass(ms) {
      await turns();
      const until = clock.now() + ms;
      for (let due = clock.nextDueMs; due !== null && due <= until; due = clock.nextDueMs) {
        clock.advanceTo(due);
        await turns();
      }
      clock.advanceTo(until);
    },
    expectIdle: () => {
      expect(host.status()).toMatchObject({ inFlight: 0, queued: 0 });
    },
  };
}

/** Whether a promise is settled by now. */
export async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  await turns();
  const open = Symbol('open');
  return (await Promise.race([promise, Promise.resolve(open)])) !== open;
}

export const listenersOf = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

export const unreachable = (status: number, retryAfterMs?: number): StreamEnd => ({
  kind: 'unreachable',
  redirected: false,
  cause: {
    kind: 'http-status',
    detail: `HTTP ${status}`,
    terminal: false,
    status,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  },
});

export const broken: StreamEnd = {
  kind: 'broken',
  redirected: false,
  cause: { kind: 'reset', detail: 'the connection was reset' },
};
