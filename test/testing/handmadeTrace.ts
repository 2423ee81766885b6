/** A recorded wire written by hand, one short call an event. */
import type { OracleConfig } from '../../src/testing/invariants.js';
import type { HostCommand, WireEvent } from '../../src/testing/wireTrace.js';

export const CONFIG: OracleConfig = {
  modernRevisions: ['2026-07-28', '2027-01-01', '2027-06-01'],
  legacyRevisions: ['2024-11-05', '2025-11-25'],
  clientInfo: { name: 'test', version: '1' },
  probeTimeoutMs: 1_000,
  legacyProbeTimeoutMs: 1_000,
  stableAfterMs: 3_000,
};

export const PREFERRED = '2027-06-01';

const STAMP = {
  'io.modelcontextprotocol/protocolVersion': PREFERRED,
  'io.modelcontextprotocol/clientInfo': CONFIG.clientInfo,
  'io.modelcontextprotocol/clientCapabilities': {},
};

export interface TraceOptions {
  readonly allowLegacy?: boolean;
  readonly perRequestStreams?: boolean;
}

export class HandmadeTrace {
  readonly events: WireEvent[] = [];
  private readonly options: Required<TraceOptions>;
  private atMs = 0;
  private connection = 0;
  private life = 1;

  constructor({ allowLegacy = true, perRequestStreams = false }: TraceOptions = {}) {
    this.options = { allowLegacy, perRequestStreams };
  }

  at(atMs: number): this {
    this.atMs = atMs;
    return this;
  }

  command(command: HostCommand): this {
    this.events.push({ kind: 'command', command, peer: 'archive', pin: 'pin', atMs: this.atMs });
    return this;
  }

  /** The peer is taken out of the configuration and added again. */
  nextLife(): this {
    this.life += 1;
    return this;
  }

  open(): this {
    this.connection += 1;
    const { life, options } = this;
    return this.add({ kind: 'open', life, peer: 'archive', pin: 'pin', ...options }).add({ kind: 'opened' });
  }

  openFailed(): this {
    this.connection += 1;
    const { life, options } = this;
    return this.add({ kind: 'open', life, peer: 'archive', pin: 'pin', ...options }).add({
      kind: 'open-failed',
      cause: 'spawn-failed',
    });
  }

  out(message: unknown, headers: Record<string, string> | null = null): this {
    const text = typeof message === 'string' ? message : JSON.stringify(message);
    return this.add({ kind: 'out', text, headers: this.options.perRequestStreams ? headers : null });
  }

  /** A modern request; with the headers that belong to it. */
  modern(id: number, method: string, revision = PREFERRED, params: object = {}): this {
    const meta = { ...STAMP, 'io.modelcontextprotocol/protocolVersion': revision };
    const headers = { 'mcp-protocol-version': revision, 'mcp-method': method };
    return this.out({ jsonrpc: '2.0', id, method, params: { ...params, _meta: meta } }, headers);
  }

  probe(id: number, revision = PREFERRED): this {
    return this.modern(id, 'server/discover', revision);
  }

  initialize(id: number, more: object = {}): this {
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: CONFIG.clientInfo,
      ...more,
    };
    return this.out({ jsonrpc: '2.0', id, method: 'initialize', params });
  }

  initialized(): this {
    return this.out({ jsonrpc: '2.0', method: 'notifications/initialized' });
  }

  in(message: unknown, exchange: number | null = null): this {
    const text = typeof message === 'string' ? message : JSON.stringify(message);
    return this.add({ kind: 'in', text, exchange: this.options.perRequestStreams ? exchange : null });
  }

  result(id: unknown, result: unknown, exchange: number | null = typeof id === 'number' ? id : null): this {
    return this.in({ jsonrpc: '2.0', id, result }, exchange);
  }

  error(
    id: unknown,
    code: number,
    data?: unknown,
    exchange: number | null = typeof id === 'number' ? id : null,
  ): this {
    return this.in(
      { jsonrpc: '2.0', id, error: { code, message: 'no', ...(data === undefined ? {} : { data }) } },
      exchange,
    );
  }

  /** A valid `DiscoverResult`. */
  discovered(id: unknown, supportedVersions: readonly string[] = [PREFERRED], exchange?: number): this {
    return this.result(id, { resultType: 'complete', supportedVersions, capabilities: {} }, exchange);
  }

  /** A valid `InitializeResult`. */
  accepted(id: unknown, exchange?: number): this {
    const serverInfo = { name: 'old', version: '1' };
    return this.result(id, { protocolVersion: '2025-11-25', capabilities: {}, serverInfo }, exchange);
  }

  overheard(message: unknown): this {
    return this.add({ kind: 'overheard', text: JSON.stringify(message) });
  }

  end(
    exchange: number,
    end: Extract<WireEvent, { kind: 'end' }>['end'] = 'complete',
    redirected = false,
    status: number | null = 200,
  ): this {
    return this.add({ kind: 'end', exchange, end, status, redirected });
  }

  abort(exchange: number): this {
    return this.add({ kind: 'abort', exchange });
  }

  /** This side closes the connection, and it is gone at once. */
  close(): this {
    return this.add({ kind: 'close' }).add({ kind: 'closed', cause: 'host' }).add({ kind: 'released' });
  }

  /** The far side ends the connection; this side lets go of it. */
  lost(): this {
    return this.add({ kind: 'closed', cause: 'exit' }).add({ kind: 'close' }).add({ kind: 'released' });
  }

  /** Ended, and this side has not let go of it. */
  ended(): this {
    return this.add({ kind: 'closed', cause: 'exit' });
  }

  private add(event: object): this {
    this.events.push({ ...event, connection: this.connection, atMs: this.atMs } as WireEvent);
    return this;
  }
}
