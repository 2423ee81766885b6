/**
 * Requests that a legacy server makes by itself: answered by the host's handlers, or refused at once. A modern peer's
 * requests never come here (N18).
 */
import { INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND } from '../protocol/codes.js';
import type { JsonObject } from '../protocol/jsonRpc.js';
import { runInput } from './answerInput.js';
import type { InputHandlers } from './inputHandlers.js';
import { type InputPlan, isDeclared, planInput } from './inputPlan.js';
import { quoted } from './wording.js';

export type ServerRequestId = string | number;

export type ServerRequestAnswer =
  | { readonly result: JsonObject }
  | { readonly code: number; readonly message: string };

export interface ServerRequestsOptions {
  readonly handlers: InputHandlers;
  readonly peer: string;
  /** Writes the answer. What it throws is dropped: the connection says by itself that it is lost. */
  readonly respond: (id: ServerRequestId, answer: ServerRequestAnswer) => void;
  /** Most handlers that run at once for this connection, cancelled ones that do not end included. Default: 32. */
  readonly maxAtOnce?: number;
  /** True once the host stops: nothing new is begun. Default: never. */
  readonly isEnding?: () => boolean;
}

/** No meaning may be assumed of it; a server sees an error and the text. */
const BUSY = -32000;
const DEFAULT_MAX_AT_ONCE = 32;

/** The server's requests of one connection. Ids are compared by JSON type and value, as `Map` does. */
export class ServerRequests {
  private readonly options: ServerRequestsOptions;
  private readonly inFlight = new Map<ServerRequestId, AbortController>();
  private running = 0;
  private isClosed = false;

  constructor(options: ServerRequestsOptions) {
    this.options = options;
  }

  /**
   * Answers one request: pings and refusals at once, all else when the host's handler has answered. No handler is called
   * in the caller's stack. Never throws.
   */
  handle(id: ServerRequestId, method: string, params: JsonObject | undefined): void {
    if (this.isClosed) return;
    const verdict = this.judge(id, method, params);
    if ('run' in verdict) this.begin(id, verdict);
    else this.respond(id, verdict);
  }

  /** The server sent `notifications/cancelled`: the handler is aborted, nothing is answered. Unknown ids are ignored. */
  cancel(id: ServerRequestId): void {
    const abort = this.inFlight.get(id);
    this.inFlight.delete(id);
    abort?.abort();
  }

  /** The connection is over: aborts every handler and answers nothing from now on. Idempotent. */
  close(): void {
    this.isClosed = true;
    const aborts = [...this.inFlight.values()];
    this.inFlight.clear();
    for (const abort of aborts) abort.abort();
  }

  private judge(
    id: ServerRequestId,
    method: string,
    params: JsonObject | undefined,
  ): InputPlan | ServerRequestAnswer {
    const { handlers, isEnding, maxAtOnce = DEFAULT_MAX_AT_ONCE } = this.options;
    if (this.inFlight.has(id)) return refusal(INVALID_REQUEST, 'A request with this id is in flight.');
    if (method === 'ping') return { result: {} };
    if (!isDeclared(handlers, method)) {
      return refusal(METHOD_NOT_FOUND, `This client does not offer ${quoted(method)}.`);
    }
    const plan = planInput(handlers, { method, params });
    // Also an undeclared mode of a declared method (2025-11-25, client/elicitation, error handling).
    if (!plan.ok) return refusal(INVALID_PARAMS, plan.message);
    if (isEnding?.() === true) return refusal(BUSY, 'The client is stopping.');
    return this.running >= maxAtOnce ? refusal(BUSY, 'too many requests at once') : plan;
  }

  private begin(id: ServerRequestId, plan: InputPlan): void {
    const abort = new AbortController();
    this.inFlight.set(id, abort);
    this.running += 1;
    const context = { peer: this.options.peer, era: 'legacy', request: null, signal: abort.signal } as const;
    const ended = () => {
      this.running -= 1;
    };
    void runInput(plan, context, ended).then((answer) => {
      // Not this one where it was cancelled, also if the server has used the id again since.
      if (this.inFlight.get(id) !== abort) return;
      this.inFlight.delete(id);
      if (answer.ok) this.respond(id, { result: answer.result });
      else this.respond(id, refusal(INTERNAL_ERROR, 'The client could not get the input.'));
    });
  }

  private respond(id: ServerRequestId, answer: ServerRequestAnswer): void {
    try {
      this.options.respond(id, answer);
    } catch {
      // See ServerRequestsOptions.respond.
    }
  }
}

function refusal(code: number, message: string): ServerRequestAnswer {
  return { code, message };
}
