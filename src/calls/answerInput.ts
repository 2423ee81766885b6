/** One input request from plan to answer: runs the host's handler and trusts nothing it does. */
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import { sanitizeText } from '../protocol/sanitize.js';
import type { InputContext, InputHandlers } from './inputHandlers.js';
import { type InputPlan, planInput } from './inputPlan.js';
import type { InputRequest } from './inputRequired.js';

export type InputFailureReason =
  /** The server asked for what was not declared to it. No handler ran. */
  | 'undeclared'
  /** The request is not what the specification says. No handler ran. */
  | 'invalid-request'
  /** The handler threw, or gave what cannot be sent. */
  | 'handler-failed'
  /** Nobody waits any more. */
  | 'cancelled';

export interface InputFailure {
  readonly ok: false;
  readonly reason: InputFailureReason;
  /** One sentence for the host, sanitized and bounded. May hold a handler's text: never send it to a server. */
  readonly message: string;
}

export type InputAnswer = { readonly ok: true; readonly result: JsonObject } | InputFailure;

const LONGEST_REASON = 300;

const CANCELLED: InputFailure = {
  ok: false,
  reason: 'cancelled',
  message: 'The input is not needed any more.',
};

/** Answers one request of a server. Never rejects; see {@link runInput}. */
export async function answerInput(
  handlers: InputHandlers,
  request: InputRequest,
  context: InputContext,
): Promise<InputAnswer> {
  const plan = planInput(handlers, request);
  return plan.ok ? runInput(plan, context) : plan;
}

/**
 * Runs the handler of a plan, never in the caller's stack. Never rejects, and resolves as soon as `context.signal` is
 * aborted, also if the handler never settles.
 *
 * @param handlerEnded called once when the handler itself has settled, which may be after the answer or never; at once
 *   where it was not called
 */
export function runInput(
  plan: InputPlan,
  context: InputContext,
  handlerEnded?: () => void,
): Promise<InputAnswer> {
  const { signal } = context;
  return new Promise((resolve) => {
    const cancel = () => resolve(CANCELLED);
    const end = (answer: InputAnswer) => {
      signal.removeEventListener('abort', cancel);
      resolve(answer);
      handlerEnded?.();
    };
    // Before the handler can listen: an abort is a cancellation, whatever the handler makes of it.
    signal.addEventListener('abort', cancel, { once: true });
    Promise.resolve()
      .then(() => (signal.aborted ? CANCELLED : ask(plan, context)))
      .then(end, (thrown: unknown) => end(failed(plan, textOf(thrown))));
  });
}

async function ask(plan: InputPlan, context: InputContext): Promise<InputAnswer> {
  const given = await plan.run(context);
  // As the server will read it, whatever `toJSON`, `undefined` or class instance it holds. A cycle throws.
  const text = JSON.stringify(given) as string | undefined;
  if (text === undefined) return failed(plan, 'it gave nothing');
  const read = plan.read(JSON.parse(text) as JsonValue);
  return read.ok ? read : failed(plan, `its answer cannot be sent: ${read.problem}`);
}

function failed(plan: InputPlan, why: string): InputFailure {
  const reason = sanitizeText(why, LONGEST_REASON);
  return {
    ok: false,
    reason: 'handler-failed',
    message: `The host's handler of ${plan.method} failed: ${reason}`,
  };
}

/** Total: anything can be thrown. */
function textOf(thrown: unknown): string {
  try {
    return String(thrown instanceof Error ? thrown.message || thrown.name : thrown);
  } catch {
    return 'it threw something that has no text';
  }
}
