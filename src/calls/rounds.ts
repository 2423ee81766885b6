/** One round of a multi round-trip request: all that a server asked for, as members of the next request. */
import type { InputFailure } from './answerInput.js';
import { runInput } from './answerInput.js';
import type { InputContext, InputHandlers } from './inputHandlers.js';
import { type InputPlan, planInput } from './inputPlan.js';
import type { InputRequired } from './inputRequired.js';

export type RoundAnswer =
  | {
      readonly ok: true;
      /** Serialized members of `params`: `"inputResponses":{…},"requestState":"…"`, each only where it belongs. */
      readonly members: string;
    }
  | InputFailure;

/**
 * Answers all requests of a round at once. Never rejects. Fails as soon as one of them fails: the others are aborted and
 * not waited for. Where something is undeclared or malformed no handler runs at all.
 *
 * @param context its signal ends the round; each handler gets one of its own that also ends with a failure of another
 */
export async function answerRound(
  handlers: InputHandlers,
  asked: Pick<InputRequired, 'inputRequests' | 'requestState'>,
  context: InputContext,
): Promise<RoundAnswer> {
  const plans: [key: string, plan: InputPlan][] = [];
  for (const [key, request] of Object.entries(asked.inputRequests ?? {})) {
    const plan = planInput(handlers, request);
    if (!plan.ok) return plan;
    plans.push([key, plan]);
  }

  // A signal each: a hundred handlers that listen to one would make Node warn of a leak.
  const aborts = plans.map(() => new AbortController());
  const abortAll = (reason?: unknown) => {
    for (const abort of aborts) abort.abort(reason);
  };
  const end = () => abortAll(context.signal.reason);
  if (context.signal.aborted) end();
  context.signal.addEventListener('abort', end, { once: true });
  try {
    let failure: InputFailure | undefined;
    const responses = await Promise.all(
      plans.map(async ([key, plan], index) => {
        const { signal } = aborts[index] as AbortController;
        const answer = await runInput(plan, { ...context, signal });
        if (answer.ok) return `${JSON.stringify(key)}:${JSON.stringify(answer.result)}`;
        failure ??= answer;
        abortAll();
        return '';
      }),
    );
    return failure ?? { ok: true, members: membersOf(asked, responses) };
  } finally {
    context.signal.removeEventListener('abort', end);
  }
}

/**
 * Text, not an object: a key `__proto__` is a key like any other. The state is "the exact value of that field", and
 * absent where there was none (2026-07-28, basic/patterns/mrtr, client requirements).
 */
function membersOf(
  asked: Pick<InputRequired, 'inputRequests' | 'requestState'>,
  responses: string[],
): string {
  const members: string[] = [];
  if (asked.inputRequests !== undefined) members.push(`"inputResponses":{${responses.join(',')}}`);
  if (asked.requestState !== undefined) members.push(`"requestState":${JSON.stringify(asked.requestState)}`);
  return members.join(',');
}
