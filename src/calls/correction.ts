/**
 * What is done about -32020: headers that do not match the body are derived anew, once a call. Those of a tool call
 * follow the tool's definition, so the tools are listed again before (2026-07-28, basic/transports).
 */
import { HEADER_MISMATCH } from '../protocol/codes.js';
import type { Outcome } from '../protocol/exchange.js';
import type { Channel, PeerCalls } from './callPort.js';
import type { ExecutionRequest } from './executionRequest.js';
import type { Interruption, Waited } from './waiting.js';

/** Whether the server refused the headers of the request. Without headers there is nothing to correct. */
export function isHeaderMismatch(outcome: Outcome, { connection, era }: Channel): boolean {
  return (
    outcome.kind === 'error' &&
    outcome.error.code === HEADER_MISMATCH &&
    era === 'modern' &&
    connection.perRequestStreams
  );
}

export interface CorrectionOptions {
  readonly peer: PeerCalls;
  /** On which it was refused. */
  readonly channel: Channel;
  readonly rebind: ExecutionRequest['rebind'];
  /** Waits under the deadline and the signal of the call. */
  readonly wait: <T>(promise: Promise<T>) => Promise<Waited<T>>;
}

/**
 * Brings the list up to date from which the headers are derived.
 *
 * @returns `ready`: send it again; `other`: what was meant is not there any more; `unlisted`: the list could not be had,
 *   so nothing would be different
 */
export async function correct(
  options: CorrectionOptions,
): Promise<'ready' | 'other' | 'unlisted' | Interruption> {
  const { peer, channel, rebind, wait } = options;
  if (rebind === undefined) return 'ready';
  const before = rebind();
  // Somebody else had it listed since this call was made.
  if (before !== 'same') return before === 'other' ? 'other' : 'ready';
  const listed = await wait(peer.relist());
  if (listed.kind !== 'done') return listed.kind;
  // A peer that lost its connection meanwhile lists by itself before it is callable again.
  if (listed.value !== null && peer.isCurrent(channel.connection)) return 'unlisted';
  return 'ready';
}
