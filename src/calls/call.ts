/**
 * One call from route to outcome. Nothing here goes through XState, and nothing throws for what the outside world
 * does; steps 1 to 4 are local, the fifth writes.
 */

import type { Outcome } from '../protocol/exchange.js';
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import type { Era } from '../protocol/revisions.js';
import type { CatalogEntry, Lease } from '../registry/lease.js';
import { isCurrentRoute } from '../registry/route.js';
import type { Clock } from '../transports/clock.js';
import type { Connection } from '../transports/connection.js';
import { interpretOutcome } from './interpret.js';
import { readToolResult } from './normalize.js';
import type { CallOptions, CallOutcome, FailedOutcome, ToolResult } from './outcome.js';
import type { ValidationResult, Validators } from './validate.js';

/** The longest delay that a timer takes; a longer one would fire at once. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** A callable peer, as it is at this moment. */
export interface Channel {
  readonly connection: Connection;
  readonly era: Era;
  readonly revision: string;
}

/** What a call needs of the host. */
export interface CallPort {
  readonly clock: Clock;
  readonly callTimeoutMs: number;
  readonly validators: Validators;
  /** The lease in force now. */
  currentLease(): Lease;
  /** The peer's connection, or why it is not callable, in one sentence. */
  channel(peer: string): Channel | string;
  /** Whether `connection` is still the one in use of a callable peer. */
  isCurrent(peer: string, connection: Connection): boolean;
  /** What a call came to, for what it says of the connection: gone, session lost, revision refused (N14). */
  noticed(peer: string, connection: Connection, outcome: Outcome): void;
  /** Whether the host is being stopped. */
  isEnding(): boolean;
  /** A modern peer left out what it must send, and was understood all the same (N19). */
  faulted(peer: string, kind: 'absent-result-type'): void;
}

/** Calls `name` as it is bound in `lease`. */
export async function callTool(
  port: CallPort,
  lease: Lease,
  name: string,
  args: JsonObject = {},
  options: CallOptions = {},
): Promise<CallOutcome> {
  const entry = lease.entries.get(name);
  const call = new Call(port, name, entry);
  if (entry === undefined) return call.fail('not-found', notFound(name, lease));
  if (!isCurrentRoute(entry, port.currentLease())) return call.stale();
  const early = port.channel(entry.peer);
  if (typeof early === 'string') return call.fail('unavailable', early);

  const serialized = serialize(args);
  if (serialized === null) {
    return call.fail('invalid-arguments', 'The arguments cannot be written as a JSON object.');
  }
  call.argumentsText = serialized.text;
  const pending = port.validators.validate(entry.digest, entry.inputSchema, serialized.value);
  const validation: ValidationResult = pending instanceof Promise ? await pending : pending;
  if (!validation.ok) {
    const status = validation.code === 'schema-unusable' ? 'protocol-error' : 'invalid-arguments';
    return call.fail(status, validation.message);
  }
  if (entry.outputSchema !== undefined) {
    const ready = port.validators.prepare(outputKey(entry), entry.outputSchema);
    if (ready instanceof Promise) await ready;
  }
  const request = begin(call, entry, options);
  if ('status' in request) return request;
  const outcome = await request.outcome;
  if (outcome.written) call.attempts = 1;
  return outcome.kind === 'result' ? call.read(entry, outcome.result) : call.interpret(entry, outcome);
}

/** Sends the request, or says why not. */
function begin(call: Call, entry: CatalogEntry, options: CallOptions): Sent | CallOutcome {
  const { port } = call;
  // Looked up again: validation may have taken a while.
  const channel = port.channel(entry.peer);
  if (typeof channel === 'string') return call.fail('unavailable', channel);
  const { connection } = channel;
  const timeoutMs = Math.min(options.timeoutMs ?? port.callTimeoutMs, LONGEST_TIMEOUT_MS) - call.elapsedMs();
  // Also where the caller gave no number.
  if (!(timeoutMs > 0)) return call.fail('timeout', 'The deadline passed before the call was sent.');
  call.channel = channel;
  const request = connection.request(
    'tools/call',
    `"name":${JSON.stringify(entry.local)},"arguments":${call.argumentsText}`,
    {
      timeoutMs,
      signal: options.signal,
      onProgress: options.onProgress,
      meta: options.meta,
      name: entry.local,
      // In the tick of the write, with no await between: what was checked above, once more.
      mayWrite: () => port.isCurrent(entry.peer, connection) && isCurrentRoute(entry, port.currentLease()),
    },
  );
  call.requestId = request.id;
  return request;
}

/** A request on its way. */
type Sent = ReturnType<Connection['request']>;

/** What is known of a call under way, and the outcomes it can be given. */
class Call {
  readonly port: CallPort;
  argumentsText = '';
  channel: Channel | null = null;
  requestId: number | null = null;
  attempts = 0;
  private readonly name: string;
  private readonly entry: CatalogEntry | undefined;
  private readonly startedAt: number;

  constructor(port: CallPort, name: string, entry: CatalogEntry | undefined) {
    this.port = port;
    this.name = name;
    this.entry = entry;
    this.startedAt = port.clock.now();
  }

  elapsedMs(): number {
    return this.port.clock.now() - this.startedAt;
  }

  fail(status: FailedOutcome['status'], message: string): CallOutcome {
    return { ...this.facts(), status, delivery: 'not-sent', message };
  }

  /** The name means something else now than in the lease. */
  stale(): CallOutcome {
    const current = this.port.currentLease().entries.get(this.name) ?? null;
    const now =
      current === null ? 'is gone' : `now means ${current.local} of ${current.peer}, with another definition`;
    return {
      ...this.facts(),
      status: 'stale-route',
      delivery: 'not-sent',
      message: `The tool ${now}: list the tools again, then call what is there.`,
      current,
    };
  }

  read(entry: CatalogEntry, result: JsonValue): CallOutcome {
    const { era } = this.channel as Channel;
    const { validators } = this.port;
    const { outputSchema } = entry;
    const validator =
      outputSchema === undefined
        ? undefined
        : (value: JsonValue) => validators.validateNow(outputKey(entry), outputSchema, value);
    const read = readToolResult(result, era, validator);
    switch (read.kind) {
      case 'ok':
      case 'tool-error':
        if (era === 'modern' && read.resultTypeAbsent === true)
          this.port.faulted(entry.peer, 'absent-result-type');
        return this.answered(entry, read.kind, read.result);
      case 'input-required':
        // Nothing was declared, so nothing may be asked for (2026-07-28, basic: multi round-trip requests).
        return {
          ...this.facts(),
          status: 'protocol-error',
          delivery: 'answered',
          message: 'The server asked for input, which this host did not offer.',
        };
      case 'invalid':
        return { ...this.facts(), status: 'invalid-result', delivery: 'answered', message: read.problem };
    }
  }

  interpret(entry: CatalogEntry, outcome: Exclude<Outcome, { kind: 'result' }>): CallOutcome {
    const { port } = this;
    const { connection } = this.channel as Channel;
    if (outcome.kind === 'withheld') {
      if (!isCurrentRoute(entry, port.currentLease())) return this.stale();
      const channel = port.channel(entry.peer);
      return this.fail('unavailable', typeof channel === 'string' ? channel : 'The connection was replaced.');
    }
    port.noticed(entry.peer, connection, outcome);
    if (outcome.kind === 'closed' && outcome.cause.kind === 'host' && port.isEnding()) {
      const { written } = outcome;
      return {
        ...this.facts(),
        ...interpretOutcome({ kind: 'cancelled', written, detail: 'the host was stopped' }),
      };
    }
    return { ...this.facts(), ...interpretOutcome(outcome) };
  }

  /** The outcome of nearly every call: written out, since spreading {@link facts} costs more than all the rest here. */
  private answered(entry: CatalogEntry, status: 'ok' | 'tool-error', result: ToolResult): CallOutcome {
    const { era, revision } = this.channel as Channel;
    return {
      status,
      delivery: 'answered',
      tool: this.name,
      peer: entry.peer,
      local: entry.local,
      era,
      revision,
      requestId: this.requestId,
      durationMs: this.durationMs(),
      attempts: this.attempts,
      argumentsBytes: Buffer.byteLength(this.argumentsText),
      result,
    };
  }

  private durationMs(): number {
    return Math.round(this.elapsedMs() * 1_000) / 1_000;
  }

  private facts() {
    const { channel, entry } = this;
    return {
      tool: this.name,
      peer: entry?.peer ?? null,
      local: entry?.local ?? null,
      era: channel?.era ?? null,
      revision: channel?.revision ?? null,
      requestId: this.requestId,
      durationMs: this.durationMs(),
      attempts: this.attempts,
      argumentsBytes: Buffer.byteLength(this.argumentsText),
    };
  }
}

/**
 * The bytes that go on the wire, and the value that they mean: what is validated is what is sent, whatever `toJSON`
 * or `undefined` the caller's object holds.
 */
function serialize(args: JsonObject): { readonly text: string; readonly value: JsonValue } | null {
  try {
    const text = JSON.stringify(args);
    if (typeof text !== 'string' || text[0] !== '{') return null;
    return { text, value: JSON.parse(text) as JsonValue };
  } catch {
    return null;
  }
}

function outputKey(entry: CatalogEntry): string {
  return `${entry.digest}:output`;
}

function notFound(name: string, lease: Lease): string {
  const shown = JSON.stringify(name.slice(0, 100));
  return `There is no tool ${shown} among the ${lease.entries.size} tools of this catalog.`;
}
