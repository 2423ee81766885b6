/** A caller's request that is no tool call: `resources/read`, `prompts/get`, `completion/complete`. */
import type { Outcome } from '../protocol/exchange.js';
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import type { Parsed } from '../protocol/results.js';
import type { CallPort, PeerCalls } from './callPort.js';
import { Execution } from './execution.js';
import type { Conclusion } from './executionRequest.js';
import { interpretOutcome, lasting } from './interpret.js';
import type { Delivery, RequestOptions, RequestOutcome, RequestStatus } from './outcome.js';

export interface PeerRequest<T> {
  readonly peer: string;
  readonly method: string;
  /** Serialized members of its params. */
  readonly members: string;
  /** The name or URI that is asked for. */
  readonly target: string;
  /** Whether it goes into the header of that name, and whether the server may ask for input. */
  readonly hasRounds: boolean;
  /** The capability without which the server is not asked. */
  readonly capability: 'prompts' | 'resources' | 'completions';
  readonly read: (result: JsonValue) => Parsed<T>;
}

/** What only the owner of the peer knows. */
export interface RequestPort extends CallPort {
  declares(peer: string, capability: string): boolean;
}

export interface Requested<T> {
  readonly outcome: RequestOutcome<T>;
  /** The result as it came, if it may be kept: it answers the request itself, not a retry with inputs. */
  readonly result: JsonValue | undefined;
}

/**
 * Sends the request. Reading has no side effect, so it may be sent again after a loss.
 *
 * @throws {TypeError} as a rejection: the extra `_meta` is no JSON
 */
export async function requestOf<T>(
  port: RequestPort,
  request: PeerRequest<T>,
  options: RequestOptions = {},
): Promise<Requested<T>> {
  const startedAt = port.clock.now();
  const peer = port.peer(request.peer);
  const fail = (status: RequestStatus, message: string): Requested<T> => ({
    outcome: { ...facts(request, null, port, startedAt), status, delivery: 'not-sent', message },
    result: undefined,
  });
  if (peer === undefined)
    return fail('not-found', `There is no peer ${JSON.stringify(request.peer.slice(0, 100))}.`);
  const early = peer.channel();
  if (typeof early === 'string') return fail('unavailable', early);
  if (!port.declares(request.peer, request.capability)) {
    return fail('not-found', `The peer ${request.peer} does not offer ${request.capability}.`);
  }
  // Before a place is taken; and what is sent again is the same.
  const meta =
    options.meta === undefined ? undefined : (JSON.parse(JSON.stringify(options.meta)) as JsonObject);
  const execution = new Execution(
    port,
    peer,
    {
      method: request.method,
      members: request.members,
      target: request.target,
      key: undefined,
      hasRounds: request.hasRounds,
      isRepeatable: () => true,
      isStillMeant: () => true,
      signal: options.signal,
      timeoutMs: options.timeoutMs,
      onProgress: options.onProgress,
      meta,
    },
    startedAt,
  );
  return end(port, peer, request, execution, await execution.run());
}

function end<T>(
  port: CallPort,
  peer: PeerCalls,
  request: PeerRequest<T>,
  execution: Execution,
  conclusion: Conclusion,
): Requested<T> {
  const base = facts(request, execution, port, execution.startedAt);
  const failed = (status: RequestStatus, delivery: Delivery, message: string): Requested<T> => ({
    outcome: { ...base, status, delivery, message },
    result: undefined,
  });
  if (conclusion.kind === 'refused') {
    return failed(conclusion.status, conclusion.delivery, conclusion.message);
  }
  const { outcome } = conclusion;
  if (outcome.kind !== 'result') {
    const read = interpretOutcome(lasting(asCancelled(port, outcome), base.durationMs), 'reading');
    const delivery = read.delivery === 'not-sent' ? execution.unsent : read.delivery;
    return {
      outcome: { ...base, ...read, status: read.status as RequestStatus, delivery },
      result: undefined,
    };
  }
  const { result } = outcome;
  if (execution.channel?.era === 'modern' && isWithoutType(result)) peer.countFault('absent-result-type');
  const parsed = request.read(result);
  if (!parsed.ok) return failed('invalid-result', 'answered', parsed.problem);
  return {
    outcome: { ...base, status: 'ok', delivery: 'answered', value: parsed.value, cached: false },
    result: execution.hadInputs ? undefined : result,
  };
}

/** A connection that the host closed because it stops was cancelled, not lost. */
function asCancelled(
  port: CallPort,
  outcome: Exclude<Outcome, { kind: 'result' }>,
): Exclude<Outcome, { kind: 'result' }> {
  return outcome.kind === 'closed' && outcome.cause.kind === 'host' && port.isEnding()
    ? { kind: 'cancelled', written: outcome.written, detail: 'the host was stopped' }
    : outcome;
}

function isWithoutType(result: JsonValue): boolean {
  return typeof result === 'object' && result !== null && !('resultType' in result);
}

function facts(
  request: { readonly peer: string; readonly method: string; readonly target: string },
  execution: Execution | null,
  port: CallPort,
  startedAt: number,
) {
  return {
    peer: request.peer,
    method: request.method,
    target: request.target,
    era: execution?.channel?.era ?? null,
    revision: execution?.channel?.revision ?? null,
    requestId: execution === null || execution.attempts === 0 ? null : execution.requestId,
    durationMs: Math.round((port.clock.now() - startedAt) * 1_000) / 1_000,
    attempts: execution?.attempts ?? 0,
  };
}
