/** A host made of data, and an io that remembers what was written. */

import type { CallOutcome } from '../../src/calls/outcome.js';
import type { CliIo, Output } from '../../src/cli/io.js';
import { runCli } from '../../src/cli/program.js';
import type { HostOptions } from '../../src/host/config.js';
import type { Host, PeerReport } from '../../src/host/facade.js';
import type { CatalogEntry, Conflict, Quarantined } from '../../src/registry/lease.js';

export interface FakeHost {
  readonly reports?: readonly PeerReport[];
  readonly entries?: readonly CatalogEntry[];
  readonly conflicts?: readonly Conflict[];
  readonly quarantined?: readonly Quarantined[];
  readonly start?: () => Promise<void>;
  readonly onStop?: () => void;
  readonly call?: (...args: Parameters<Host['call']>) => Promise<CallOutcome>;
}

export interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** Options of the hosts that were made. */
  readonly options: readonly HostOptions[];
  readonly stops: number;
}

export interface RunOptions {
  readonly host?: FakeHost;
  readonly env?: Record<string, string>;
  readonly tty?: boolean;
  readonly stdin?: string;
  readonly interruption?: AbortController;
}

export async function run(args: readonly string[], given: RunOptions = {}): Promise<Run> {
  const { host = {}, env = {}, tty = false, stdin = '', interruption = new AbortController() } = given;
  const [stdout, stderr] = [capture(tty), capture(tty)];
  const options: HostOptions[] = [];
  let stops = 0;
  const io: CliIo = {
    stdout: stdout.output,
    stderr: stderr.output,
    env,
    interrupted: interruption.signal,
    async readStdin(maxBytes) {
      if (stdin.length > maxBytes) throw new RangeError('too long');
      return stdin;
    },
    async createHost(created) {
      options.push(created);
      return fakeHost(host, () => {
        stops += 1;
        host.onStop?.();
      });
    },
  };
  const code = await runCli(args, io);
  return { code, stdout: stdout.text(), stderr: stderr.text(), options, stops };
}

function capture(isTTY: boolean): { readonly output: Output; readonly text: () => string } {
  const written: string[] = [];
  return {
    output: { write: (text) => void written.push(text), isTTY, columns: isTTY ? 100 : undefined },
    text: () => written.join(''),
  };
}

function fakeHost(fake: FakeHost, onStop: () => void): Host {
  const reports = fake.reports ?? [];
  const unused = (): never => {
    throw new Error('the command line has no use for this');
  };
  const listeners = new Set<(report: PeerReport) => void>();
  const host: Host = {
    id: 'fake',
    async start() {
      for (const report of reports) for (const listener of listeners) listener(report);
      await fake.start?.();
      return { peers: reports, ms: 1 };
    },
    catalog: () => ({
      revision: 3,
      entries: new Map((fake.entries ?? []).map((entry) => [entry.name, entry])),
      conflicts: fake.conflicts ?? [],
      quarantined: fake.quarantined ?? [],
      pending: [],
      call: unused,
    }),
    call: async (...args) => (fake.call === undefined ? unused() : fake.call(...args)),
    listPrompts: unused,
    listResources: unused,
    listResourceTemplates: unused,
    readResource: unused,
    getPrompt: unused,
    complete: unused,
    subscribeResource: unused,
    status: unused,
    peer: unused,
    peers: () => reports,
    addPeer: unused,
    removePeer: unused,
    forget: unused,
    on(event, listener) {
      if (event !== 'peer') return () => {};
      listeners.add(listener as (report: PeerReport) => void);
      return () => listeners.delete(listener as (report: PeerReport) => void);
    },
    async stop() {
      onStop();
    },
    [Symbol.asyncDispose]: unused,
  };
  return host;
}

export function report(name: string, changes: Partial<PeerReport> = {}): PeerReport {
  return {
    name,
    state: 'modern',
    era: 'modern',
    revision: '2026-07-28',
    server: { name: `${name}-server`, version: '1.0.0' },
    authorizationUrl: null,
    reason: null,
    initializeSent: 0,
    ms: 12.4,
    tools: 2,
    listing: null,
    record: [],
    faults: {},
    path: ['idle', 'probing', 'modern'],
    ...changes,
  };
}

export function failedReport(name: string, changes: Partial<PeerReport> = {}): PeerReport {
  return report(name, {
    state: 'unavailable',
    era: 'unknown',
    revision: null,
    server: null,
    tools: null,
    reason: {
      code: 'not-allowlisted',
      message: 'The probe was answered with -32601, which proves nothing.',
      fix: `Add allowLegacy: true to ${name} if you trust this command.`,
    },
    record: [
      {
        atMs: 1.6,
        sent: 'server/discover',
        id: 1,
        revision: '2026-07-28',
        outcome: 'error',
        detail: '-32601 Method not found',
        verdict: 'discover.ambiguous',
        rule: 'N5',
      },
    ],
    path: ['idle', 'probing', 'unavailable'],
    ...changes,
  });
}

export function entry(name: string, peer: string, changes: Partial<CatalogEntry> = {}): CatalogEntry {
  return {
    name,
    peer,
    local: name,
    digest: `sha256:${'0'.repeat(64)}`,
    title: undefined,
    description: `What ${name} does.`,
    inputSchema: { type: 'object' },
    outputSchema: undefined,
    annotations: undefined,
    freshness: 'fresh',
    ...changes,
  };
}

export function answered(text: string, changes: Partial<CallOutcome> = {}): CallOutcome {
  return {
    status: 'ok',
    delivery: 'answered',
    tool: 'echo',
    peer: 'notes',
    local: 'echo',
    era: 'modern',
    revision: '2026-07-28',
    requestId: 3,
    durationMs: 4.2,
    attempts: 1,
    argumentsBytes: 2,
    result: { content: [{ type: 'text', text }] },
    ...changes,
  } as CallOutcome;
}
