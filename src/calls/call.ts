/**
 * One call from route to outcome. Nothing here goes through XState, and nothing throws for what the outside world
 * does; steps 1 to 4 are local, the fifth goes to the wire ({@link Execution}).
 */
import type { Outcome } from '../protocol/exchange.js';
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import type { CatalogEntry, Lease, Quarantined } from '../registry/lease.js';
import { displayName, prefixedName } from '../registry/names.js';
import { isCurrentRoute } from '../registry/route.js';
import { isSameButForHeaders } from '../registry/sameTool.js';
import type { CallPort, Channel, PeerCalls } from './callPort.js';
import { Execution } from './execution.js';
import type { Conclusion } from './executionRequest.js';
import { interpretOutcome, lasting } from './interpret.js';
import { mirroredHeaders } from './mirroring.js';
import { readToolResult } from './normalize.js';
import type { CallOptions, CallOutcome, Delivery, FailedOutcome, ToolResult } from './outcome.js';
import { isRepeatable, serializationKey } from './policy.js';
import type { ValidationResult } from './validate.js';

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
  if (entry === undefined) return call.fail('not-found', notFound(name, lease, port));
  if (!isCurrentRoute(entry, port.currentLease())) return call.stale();
  const peer = port.peer(entry.peer);
  const early = peer === undefined ? `The peer ${entry.peer} was removed.` : peer.channel();
  if (peer === undefined || typeof early === 'string') return call.fail('unavailable', early as string);

  const serialized = serialize(args);
  if (serialized === null) {
    return call.fail('invalid-arguments', 'The arguments cannot be written as a JSON object.');
  }
  const meta = options.meta === undefined ? undefined : serialize(options.meta);
  if (meta === null) return call.fail('invalid-arguments', 'The extra _meta cannot be written as JSON.');
  call.argumentsText = serialized.text;
  if (options.validateArguments !== false) {
    const pending = port.validators.validate(entry.digest, entry.inputSchema, serialized.value);
    const validation: ValidationResult = pending instanceof Promise ? await pending : pending;
    if (!validation.ok) {
      const status = validation.code === 'schema-unusable' ? 'protocol-error' : 'invalid-arguments';
      return call.fail(status, validation.message);
    }
  }
  if (entry.outputSchema !== undefined) {
    const ready = port.validators.prepare(outputKey(entry), entry.outputSchema);
    if (ready instanceof Promise) await ready;
  }
  const execution = call.execution(peer, entry, serialized.value, options, meta?.value);
  const begun = execution.begin();
  let conclusion: Conclusion;
  if (begun === null) {
    conclusion = await execution.proceed(null);
  } else if ('id' in begun) {
    const outcome = await begun.outcome;
    conclusion = execution.conclude(outcome) ?? (await execution.proceed(outcome));
  } else {
    conclusion = begun;
  }
  return call.end(peer, entry, conclusion);
}

/** What is known of a call under way, and the outcomes it can be given. */
class Call {
  argumentsText = '';
  private readonly port: CallPort;
  private carried: Execution | null = null;
  private readonly name: string;
  private readonly entry: CatalogEntry | undefined;
  /** What is sent is bound to it: {@link entry}, or the same tool with other headers. */
  private bound: CatalogEntry | undefined;
  private readonly startedAt: number;

  constructor(port: CallPort, name: string, entry: CatalogEntry | undefined) {
    this.port = port;
    this.name = name;
    this.entry = entry;
    this.bound = entry;
    this.startedAt = port.clock.now();
  }

  execution(
    peer: PeerCalls,
    entry: CatalogEntry,
    args: JsonObject,
    options: CallOptions,
    meta: JsonObject | undefined,
  ): Execution {
    const { port } = this;
    this.carried = new Execution(
      port,
      peer,
      {
        method: 'tools/call',
        members: `"name":${JSON.stringify(entry.local)},"arguments":${this.argumentsText}`,
        target: entry.local,
        key: serializationKey(port.policy, peer, entry.local, args),
        hasRounds: true,
        isRepeatable: () => isRepeatable(port.policy, peer, entry.local, args),
        isStillMeant: () => this.isStillMeant(),
        headers: () => mirroredHeaders((this.bound ?? entry).inputSchema, args),
        rebind: () => this.rebind(),
        signal: options.signal,
        timeoutMs: options.timeoutMs,
        onProgress: options.onProgress,
        meta,
      },
      this.startedAt,
    );
    return this.carried;
  }

  fail(status: FailedOutcome['status'], message: string): CallOutcome {
    return { ...this.facts(), status, delivery: 'not-sent', message };
  }

  private isStillMeant(): boolean {
    return this.bound !== undefined && isCurrentRoute(this.bound, this.port.currentLease());
  }

  private rebind(): 'same' | 'renewed' | 'other' {
    if (this.isStillMeant()) return 'same';
    const current = this.port.currentLease().entries.get(this.name);
    if (this.bound === undefined || current === undefined) return 'other';
    if (!isSameButForHeaders(this.bound, current)) return 'other';
    this.bound = current;
    return 'renewed';
  }

  /**
   * The name means something else now than in the lease.
   *
   * @param delivery `answered`: the server refused the headers of the call before it did anything
   */
  stale(delivery: 'not-sent' | 'answered' = 'not-sent'): CallOutcome {
    const lease = this.port.currentLease();
    const current = lease.entries.get(this.name) ?? null;
    const kept = current === null ? keptOut(this.name, lease) : null;
    const now =
      current !== null
        ? `now means ${current.local} of ${current.peer}, with another definition`
        : kept === null
          ? 'is gone'
          : `is not offered any more (${kept.reason})`;
    return {
      ...this.facts(),
      status: 'stale-route',
      delivery,
      message: `The tool ${now}: list the tools again, then call what is there.`,
      current,
    };
  }

  end(peer: PeerCalls, entry: CatalogEntry, conclusion: Conclusion): CallOutcome {
    if (conclusion.kind === 'refused') {
      const { status, delivery, message } = conclusion;
      return { ...this.facts(), status, delivery, message };
    }
    const { outcome } = conclusion;
    return outcome.kind === 'result' ? this.read(peer, entry, outcome.result) : this.interpret(outcome);
  }

  private read(peer: PeerCalls, entry: CatalogEntry, result: JsonValue): CallOutcome {
    const era = this.carried?.channel?.era ?? 'modern';
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
        if (era === 'modern' && read.resultTypeAbsent === true) peer.countFault('absent-result-type');
        return this.answered(entry, read.kind, read.result);
      case 'input-required':
        // Answered in rounds before it gets here.
        return {
          ...this.facts(),
          status: 'protocol-error',
          delivery: 'answered',
          message: 'The server asked for input, which cannot be given here.',
        };
      case 'invalid':
        return { ...this.facts(), status: 'invalid-result', delivery: 'answered', message: read.problem };
    }
  }

  private interpret(outcome: Exclude<Outcome, { kind: 'result' }>): CallOutcome {
    const { port } = this;
    if (outcome.kind === 'withheld' && !this.isStillMeant()) {
      const delivery = this.carried?.unsent ?? 'not-sent';
      if (delivery === 'not-sent') return this.stale();
      if (delivery === 'answered' && this.carried?.isCorrected === true) return this.stale(delivery);
      const message =
        delivery === 'answered'
          ? 'The tool changed while the server waited for input; the input was not sent.'
          : 'The tool changed while the call was under way; an earlier attempt may have been executed.';
      return { ...this.facts(), status: 'unavailable', delivery, message };
    }
    if (outcome.kind === 'closed' && outcome.cause.kind === 'host' && port.isEnding()) {
      return this.interpreted({
        kind: 'cancelled',
        written: outcome.written,
        detail: 'the host was stopped',
      });
    }
    return this.interpreted(outcome);
  }

  /** What an earlier attempt may have done is not undone by a later one that was not sent. */
  private interpreted(outcome: Exclude<Outcome, { kind: 'result' }>): CallOutcome {
    const read = interpretOutcome(lasting(outcome, this.durationMs()));
    const delivery: Delivery =
      read.delivery === 'not-sent' && this.carried !== null ? this.carried.unsent : read.delivery;
    return { ...this.facts(), ...read, delivery };
  }

  /** The outcome of nearly every call: written out, since spreading {@link facts} costs more than all the rest here. */
  private answered(entry: CatalogEntry, status: 'ok' | 'tool-error', result: ToolResult): CallOutcome {
    const carried = this.carried as Execution;
    const { era, revision } = carried.channel as Channel;
    return {
      status,
      delivery: 'answered',
      tool: this.name,
      peer: entry.peer,
      local: entry.local,
      era,
      revision,
      requestId: carried.requestId,
      durationMs: this.durationMs(),
      attempts: carried.attempts,
      argumentsBytes: Buffer.byteLength(this.argumentsText),
      result,
    };
  }

  private get attempts(): number {
    return this.carried?.attempts ?? 0;
  }

  private durationMs(): number {
    return Math.round((this.port.clock.now() - this.startedAt) * 1_000) / 1_000;
  }

  private facts() {
    const { carried, entry } = this;
    return {
      tool: this.name,
      peer: entry?.peer ?? null,
      local: entry?.local ?? null,
      era: carried?.channel?.era ?? null,
      revision: carried?.channel?.revision ?? null,
      requestId: this.attempts === 0 ? null : (carried?.requestId ?? null),
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
function serialize(args: JsonObject): { readonly text: string; readonly value: JsonObject } | null {
  try {
    const text = JSON.stringify(args);
    if (typeof text !== 'string' || text[0] !== '{') return null;
    return { text, value: JSON.parse(text) as JsonObject };
  } catch {
    return null;
  }
}

function outputKey(entry: CatalogEntry): string {
  return `${entry.digest}:output`;
}

function notFound(name: string, lease: Lease, port: CallPort): string {
  if (port.isEnding()) return 'The host was stopped.';
  if (lease.revision === 0)
    return 'Nothing is listed yet: the host was not started, or no peer has answered.';
  const shown = JSON.stringify(name.slice(0, 100));
  const kept = keptOut(name, lease);
  if (kept !== null) return `The tool ${shown} of ${kept.peer} is listed and not offered: ${kept.reason}.`;
  const { size } = lease.entries;
  return `There is no tool ${shown} in this catalog, which has ${size === 1 ? '1 tool' : `${size} tools`}.`;
}

/** The tool that would have this name, if it was put aside. Its words are fit to be shown. */
function keptOut(name: string, { quarantined }: Lease): Quarantined | null {
  const shown = displayName(name);
  const isMeant = ({ peer, local }: Quarantined): boolean =>
    local !== null && (local === shown || prefixedName(peer, local) === name);
  return quarantined.find(isMeant) ?? null;
}
