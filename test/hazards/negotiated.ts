/** A host with one scripted peer, negotiated in simulated time, and what its wire says. */
import { expect } from 'vitest';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host, PeerReport } from '../../src/host/facade.js';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';
import { LEGACY_REVISIONS, MODERN_REVISIONS } from '../../src/protocol/revisions.js';
import { createSimulatedClock, type SimulatedClock } from '../../src/testing/clock.js';
import { advance, settled } from '../../src/testing/drive.js';
import { checkTrace, type OracleConfig } from '../../src/testing/invariants.js';
import type { HttpAnswer, LifeScript, Reaction, Script, Step } from '../../src/testing/script.js';
import { scriptedTransport } from '../../src/testing/scriptedPeer.js';
import { WireTrace } from '../../src/testing/wireTrace.js';

const ORACLE: OracleConfig = {
  modernRevisions: MODERN_REVISIONS,
  legacyRevisions: LEGACY_REVISIONS,
  clientInfo: { name: 'hazards', version: '1' },
  probeTimeoutMs: 15_000,
  legacyProbeTimeoutMs: 15_000,
  stableAfterMs: 30_000,
};

export interface Negotiated {
  readonly host: Host;
  readonly clock: SimulatedClock;
  readonly trace: WireTrace;
  readonly report: PeerReport;
  /** Methods written, in order; responses as `response`. */
  readonly written: readonly string[];
  /** Connections opened. */
  readonly connections: number;
}

export interface NegotiateOptions {
  readonly allowLegacy?: boolean;
  readonly overHttp?: boolean;
  readonly options?: Partial<CreateHostOptions>;
}

/** Starts a host with the peer `archive`. */
export async function negotiate(
  script: Script | LifeScript | readonly Reaction[],
  given: NegotiateOptions = {},
): Promise<Negotiated> {
  const { allowLegacy = false, overHttp = false, options = {} } = given;
  const clock = createSimulatedClock();
  const trace = new WireTrace(clock);
  const transport = scriptedTransport(scriptOf(script), {
    clock,
    perRequestStreams: overHttp,
    maxMessageBytes: 64 * 1024,
  });
  const createTransport = trace.record({ peer: 'archive', pin: 'archive', allowLegacy }, transport);
  const host = createHost({
    peers: { archive: { createTransport, identity: 'archive', allowLegacy } },
    clientInfo: ORACLE.clientInfo,
    clock,
    maxAttempts: 0,
    retryUnavailableAfterMs: 0,
    ...options,
  });
  trace.command('start');
  await settled(clock, host.start(), 60_000);
  await advance(clock, 0);
  return {
    host,
    clock,
    trace,
    get report() {
      return host.peer('archive').report();
    },
    get written() {
      return writtenOn(trace);
    },
    get connections() {
      return trace.events.filter((event) => event.kind === 'open').length;
    },
  };
}

/** Every rule of the wire was obeyed, and nothing is left. */
export async function end({ host, clock, trace }: Negotiated): Promise<void> {
  trace.command('stop');
  await settled(clock, host.stop(), 60_000);
  expect(clock.pendingTimers).toBe(0);
  expect(checkTrace(trace.events, ORACLE)).toEqual([]);
}

function writtenOn(trace: WireTrace): string[] {
  return trace.events.flatMap((event) =>
    event.kind === 'out' ? [(JSON.parse(event.text) as { method?: string }).method ?? 'response'] : [],
  );
}

function scriptOf(script: Script | LifeScript | readonly Reaction[]): Script {
  if ('lives' in script) return script;
  return { lives: ['reactions' in script ? script : { reactions: script }] };
}

// Parts of scripts.

export const on = (method: string, ...steps: Step[]): Reaction => ({ on: method, steps });
export const once = (method: string, ...steps: Step[]): Reaction => ({ on: method, times: 1, steps });
export const result = (value: JsonValue, id: JsonValue = '$id'): Step => ({
  say: { jsonrpc: '2.0', id, result: value },
});
export const error = (code: number, message = 'no', id: JsonValue = '$id', data?: JsonValue): Step => ({
  say: { jsonrpc: '2.0', id, error: data === undefined ? { code, message } : { code, message, data } },
});
export const http = (answer: HttpAnswer): Step => ({ http: answer });

export const DISCOVERED: JsonValue = {
  resultType: 'complete',
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: {} },
};
export const INITIALIZED: JsonValue = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'old', version: '1.0.0' },
};
export const TOOLS: JsonValue = { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] };

/** Accepts `initialize` and lists one tool. */
export const legacySession: readonly Reaction[] = [
  on('initialize', result(INITIALIZED)),
  on('tools/list', result(TOOLS)),
];
