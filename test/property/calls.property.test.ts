/** Random faults at every step of every call: what a server recorded, against what the callers were told. */
import { getEventListeners } from 'node:events';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { CallOutcome } from '../../src/calls/outcome.js';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock, type SimulatedClock } from '../../src/testing/clock.js';
import { type MemoryControl, memoryTransport } from '../../src/transports/memory.js';
import type { StreamEnd } from '../../src/transports/transport.js';
import { turns } from '../calls/callHarness.js';

/** What becomes of one request that the server heard, and whether it executed the tool. */
const REACTIONS = [
  'answer',
  'answer', // the most likely one
  'answer-twice',
  'answer-late',
  'answer-with-foreign-first',
  'tool-error',
  'error',
  'ask', // for another round, of state alone
  'executed-silent',
  'executed-lost',
  'executed-broken',
  'executed-503',
  'executed-html',
  'lost',
  'broken',
  '429',
  'silent',
] as const;
type Reaction = (typeof REACTIONS)[number];

const TOOLS = ['once', 'again', 'ordered'];
const SCHEMA = { type: 'object', properties: { key: { type: 'string' } } };

const STEPS = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('call' as const),
      tool: fc.constantFrom(...TOOLS),
      timeoutMs: fc.integer({ min: 1, max: 8_000 }),
      abortAfterMs: fc.option(fc.integer({ min: 0, max: 4_000 }), { freq: 3 }),
      wantsProgress: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 6_000 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lose' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('hold' as const, 'release' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('mood' as const),
      mood: fc.constantFrom('well', 'silent', 'refused'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('noise' as const),
      what: fc.constantFrom('late', 'foreign', 'null', 'text'),
    }),
  },
);

const WORLD = fc.record({
  perRequestStreams: fc.boolean(),
  maxInFlight: fc.integer({ min: 1, max: 3 }),
  maxQueue: fc.integer({ min: 0, max: 4 }),
  breakerThreshold: fc.constantFrom(0, 2),
  reactions: fc.array(fc.constantFrom(...REACTIONS), { minLength: 1, maxLength: 30 }),
  steps: fc.array(STEPS, { minLength: 1, maxLength: 25 }),
});
type World = typeof WORLD extends fc.Arbitrary<infer T> ? T : never;

interface Told {
  readonly tool: string;
  readonly key: string;
  readonly signal: AbortSignal;
  readonly outcomes: CallOutcome[];
}

/** The server's side: what it heard of each call and did. */
class Recorder {
  readonly ids: number[] = [];
  readonly heard = new Map<string, { requests: number; asked: number; executions: number }>();
  control: MemoryControl | null = null;
  mood = 'well';
  private reactions: Reaction[];
  private readonly world: World;
  private readonly clock: SimulatedClock;

  constructor(world: World, clock: SimulatedClock) {
    this.world = world;
    this.reactions = [...world.reactions];
    this.clock = clock;
  }

  of(key: string) {
    let entry = this.heard.get(key);
    if (entry === undefined) {
      entry = { requests: 0, asked: 0, executions: 0 };
      this.heard.set(key, entry);
    }
    return entry;
  }

  transport() {
    return memoryTransport({
      perRequestStreams: this.world.perRequestStreams,
      peer: () => ({
        open: () =>
          this.mood === 'refused'
            ? { ok: false, cause: { kind: 'spawn-failed', detail: 'refused', terminal: false } }
            : { ok: true },
        opened: (control) => {
          this.control = control;
        },
        receive: (text, reply, control) => this.receive(JSON.parse(text) as JsonObject, reply, control),
      }),
    });
  }

  /** From now on all is well. */
  heal(): void {
    this.mood = 'well';
    this.reactions = [];
    this.control?.release();
  }

  private receive(message: JsonObject, reply: (text: string) => void, control: MemoryControl): void {
    const id = message['id'] as number | undefined;
    if (id === undefined) return;
    this.ids.push(id);
    const params = message['params'] as JsonObject;
    if (message['method'] === 'tools/call') this.of(keyOf(params)).requests += 1;
    if (this.mood === 'silent') return;
    const result = (value: JsonObject): void =>
      reply(JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...value } }));
    switch (message['method']) {
      case 'server/discover':
        result({ supportedVersions: ['2026-07-28'], capabilities: { tools: {} } });
        return;
      case 'tools/list':
        result({
          tools: TOOLS.map((name) => ({ name, inputSchema: SCHEMA })),
        });
        return;
      case 'tools/call':
        this.react(id, params, reply, result, control);
    }
  }

  private react(
    id: number,
    params: JsonObject,
    reply: (text: string) => void,
    result: (value: JsonObject) => void,
    control: MemoryControl,
  ): void {
    const key = keyOf(params);
    const entry = this.of(key);
    const reaction = this.reactions.shift() ?? 'answer';
    const execute = (): JsonObject => {
      entry.executions += 1;
      return { content: [{ type: 'text', text: key }] };
    };
    const lose = (): void => control.close({ kind: 'exit', detail: 'exit 1', exitCode: 1 });
    const end = (how: StreamEnd): void => {
      if (this.world.perRequestStreams) control.end(id, how);
      else lose();
    };
    switch (reaction) {
      case 'answer':
        result(execute());
        return;
      case 'answer-twice': {
        const value = execute();
        result(value);
        result(value);
        return;
      }
      case 'answer-late': {
        const value = execute();
        this.clock.setTimeout(() => result(value), 3_000);
        return;
      }
      case 'answer-with-foreign-first':
        reply(JSON.stringify({ jsonrpc: '2.0', id: String(id), result: { content: [] } }));
        reply(JSON.stringify({ jsonrpc: '2.0', id: id + 1_000, result: { content: [] } }));
        result(execute());
        return;
      case 'tool-error':
        result({ ...execute(), isError: true });
        return;
      case 'error':
        reply(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32603, message: 'no' } }));
        return;
      case 'ask':
        entry.asked += 1;
        result({ resultType: 'input_required', requestState: key });
        return;
      case 'executed-silent':
        execute();
        return;
      case 'executed-lost':
        execute();
        lose();
        return;
      case 'executed-broken':
        execute();
        end({ kind: 'broken', redirected: false, cause: { kind: 'reset', detail: 'reset' } });
        return;
      case 'executed-503':
        execute();
        end(status(503));
        return;
      case 'executed-html':
        execute();
        end({
          kind: 'unreachable',
          redirected: false,
          cause: { kind: 'html', detail: 'a page', terminal: false },
        });
        return;
      case 'lost':
        lose();
        return;
      case 'broken':
        end({ kind: 'broken', redirected: false, cause: { kind: 'stream-ended', detail: 'ended' } });
        return;
      case '429':
        end(status(429, 1_500));
        return;
      case 'silent':
        return;
    }
  }
}

const keyOf = (params: JsonObject): string => (params['arguments'] as { key: string }).key;

const status = (code: number, retryAfterMs?: number): StreamEnd => ({
  kind: 'unreachable',
  redirected: false,
  cause: {
    kind: 'http-status',
    detail: `HTTP ${code}`,
    terminal: false,
    status: code,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  },
});

async function pass(clock: SimulatedClock, ms: number): Promise<void> {
  await turns();
  const until = clock.now() + ms;
  for (let due = clock.nextDueMs; due !== null && due <= until; due = clock.nextDueMs) {
    clock.advanceTo(due);
    await turns();
  }
  clock.advanceTo(until);
}

function noise(what: string, { ids, control }: Recorder): void {
  if (control === null || control.closed) return;
  const last = ids.at(-1) ?? 0;
  const id = { late: ids[0] ?? 0, foreign: last + 77, null: null, text: String(last) }[what];
  control.send(JSON.stringify({ jsonrpc: '2.0', id, result: { content: [], resultType: 'complete' } }));
}

async function play(world: World): Promise<void> {
  const clock = createSimulatedClock();
  const server = new Recorder(world, clock);
  const { maxInFlight, maxQueue, breakerThreshold } = world;
  const host = createHost({
    clock,
    random: () => 0.5,
    backoffMinMs: 200,
    backoffMaxMs: 2_000,
    maxAttempts: 1_000,
    maxCallMs: 20_000,
    probeTimeoutMs: 2_000,
    breakerThreshold,
    breakerOpenMs: 1_000,
    peers: {
      it: {
        identity: 'recorder',
        createTransport: server.transport(),
        maxInFlight,
        maxQueue,
        repeatable: ['again'],
        serialize: ['ordered'],
      },
    },
  });
  try {
    await host.start();
    // The validators are there, so that a call is on its way within a few turns.
    for (const name of TOOLS) await host.call(name, { key: 7 });
    const calls: Told[] = [];
    for (const step of world.steps) await take(step, { host, clock, server, calls });
    server.heal();
    await pass(clock, 30_000);
    check(calls, server);
    expect(host.status()).toMatchObject({ inFlight: 0, queued: 0 });
    // A server that was silent when it was probed stays unavailable until somebody asks again.
    if (host.peer('it').state === 'unavailable') {
      host.peer('it').retry();
      await pass(clock, 10_000);
    }
    // All places are there again, and a breaker closes by the first of them.
    await host.call('once', { key: 'after' });
    const after = Array.from({ length: maxInFlight }, () => host.call('once', { key: 'after' }));
    for (const outcome of await Promise.all(after)) expect(outcome.status).toBe('ok');
  } finally {
    await host.stop();
  }
  expect(clock.pendingTimers).toBe(0);
}

interface Stage {
  readonly host: Host;
  readonly clock: SimulatedClock;
  readonly server: Recorder;
  readonly calls: Told[];
}

async function take(step: World['steps'][number], { host, clock, server, calls }: Stage): Promise<void> {
  switch (step.do) {
    case 'call': {
      const control = new AbortController();
      const key = String(calls.length);
      const told: Told = { tool: step.tool, key, signal: control.signal, outcomes: [] };
      calls.push(told);
      const options = {
        timeoutMs: step.timeoutMs,
        signal: control.signal,
        ...(step.wantsProgress ? { onProgress: () => {} } : {}),
      };
      void host.call(step.tool, { key }, options).then((outcome) => told.outcomes.push(outcome));
      if (step.abortAfterMs !== null) clock.setTimeout(() => control.abort(), step.abortAfterMs);
      // In half of the cases the next step comes while it is being begun.
      if (step.timeoutMs % 2 === 0) await turns();
      return;
    }
    case 'pass':
      return pass(clock, step.ms);
    case 'lose':
      server.control?.close({ kind: 'exit', detail: 'exit 1', exitCode: 1 });
      return;
    case 'hold':
      server.control?.hold();
      return;
    case 'release':
      server.control?.release();
      return;
    case 'mood':
      server.mood = step.mood;
      return;
    case 'noise':
      noise(step.what, server);
  }
}

function check(calls: readonly Told[], server: Recorder): void {
  for (const { tool, key, signal, outcomes } of calls) {
    expect(outcomes).toHaveLength(1);
    const outcome = outcomes[0] as CallOutcome;
    const { requests, asked, executions } = server.of(key);
    const about = `${tool} ${key}: ${outcome.status} ${outcome.delivery}, ${requests} heard, ${executions} executed`;
    expect(outcome.attempts, about).toBe(requests);
    expect(getEventListeners(signal, 'abort'), about).toHaveLength(0);
    if (outcome.delivery === 'not-sent') expect(requests, about).toBe(0);
    if (requests === 0) expect(outcome.delivery, about).toBe('not-sent');
    if (tool === 'again') {
      expect(requests - asked, about).toBeLessThanOrEqual(4);
    } else {
      expect(executions, about).toBeLessThanOrEqual(1);
      // Nothing is sent after a request that may have been executed.
      expect(requests - asked, about).toBeLessThanOrEqual(1);
    }
    // Nobody is told that it was not done where it may have been.
    if (executions > 0 && outcome.result === undefined && tool !== 'again') {
      expect(outcome.delivery, about).toBe('unknown');
    }
    if (outcome.result !== undefined) {
      expect(executions, about).toBeGreaterThanOrEqual(1);
      if (tool !== 'again') expect(executions, about).toBe(1);
      // The caller's own answer.
      expect(outcome.result.content, about).toEqual([{ type: 'text', text: key }]);
    }
  }
  expect(new Set(server.ids).size).toBe(server.ids.length);
}

test('every call has one outcome, and it says no more than what the server recorded', async () => {
  await fc.assert(fc.asyncProperty(WORLD, play), { numRuns: 150 });
});
