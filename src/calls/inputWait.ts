/** The inputs of one round, unless the call ends before they are there: then the handlers are aborted. */

import type { JsonObject } from '../protocol/jsonRpc.js';
import type { CallPort, PeerCalls } from './callPort.js';
import { readInputRequired } from './inputRequired.js';
import { answerRound } from './rounds.js';
import type { Interruption, Waited } from './waiting.js';

export interface RoundRequest {
  readonly port: CallPort;
  readonly peer: PeerCalls;
  readonly method: string;
  readonly target: string;
  /** The rounds that were begun, with this one. */
  readonly round: number;
  /** Waits under the deadline and the signal of the call. */
  readonly wait: <T>(promise: Promise<T>) => Promise<Waited<T>>;
}

export type RoundResult =
  | { readonly kind: 'inputs'; readonly members: string }
  /** The server asked for what it must not, or in a wrong way, or too often. */
  | { readonly kind: 'broken'; readonly message: string }
  /** A handler failed. */
  | { readonly kind: 'failed'; readonly message: string }
  /** There is nobody to send the inputs to, nor will there be soon. */
  | { readonly kind: 'gone'; readonly message: string }
  | { readonly kind: Interruption };

/** @param result has `resultType: "input_required"` */
export async function inputsOf(result: JsonObject, request: RoundRequest): Promise<RoundResult> {
  const { port, peer, method, target } = request;
  const asked = readInputRequired(result);
  if (asked.kind === 'invalid') {
    return { kind: 'broken', message: `The server asked for input in an invalid way: ${asked.problem}.` };
  }
  if (request.round > port.maxRounds) {
    const message =
      port.maxRounds === 0
        ? 'The server asked for input, which this host does not give (maxRounds is 0).'
        : `The server asked for input more than ${port.maxRounds} times in one call.`;
    return { kind: 'broken', message };
  }
  const control = new AbortController();
  // A connection that is lost and made again is no end: the answer of a person goes to the new one, since a round
  // carries all that the server needs (2026-07-28, basic/patterns/mrtr).
  const gone = peer.whenGone();
  try {
    const answered = await request.wait(
      Promise.race([
        answerRound(port.handlers, asked, {
          peer: peer.name,
          era: 'modern',
          request: { method, target },
          signal: control.signal,
        }),
        gone.promise,
      ]),
    );
    if (answered.kind !== 'done') return answered;
    const { value } = answered;
    if (typeof value === 'string') return { kind: 'gone', message: value };
    if (value.ok) return { kind: 'inputs', members: value.members };
    const isOurs = value.reason === 'handler-failed' || value.reason === 'cancelled';
    return { kind: isOurs ? 'failed' : 'broken', message: value.message };
  } finally {
    gone.cancel();
    control.abort();
  }
}
