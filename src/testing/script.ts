/**
 * Scripts of far sides: plain JSON that says on which message what comes back, when and in which pieces. One script
 * plays on a pipe and over per-request streams, in memory (`scriptedPeer.ts`), in a child process, or behind whatever
 * transport its player is given.
 */
import type { CloseCause, UnreachableCause } from '../protocol/exchange.js';
import type { JsonValue } from '../protocol/jsonRpc.js';

/** A far side over several connections: the n-th connection plays the n-th life, later ones the last. */
export interface Script {
  readonly lives: readonly LifeScript[];
}

/** What one connection does. A message that no reaction is left for gets no answer. */
export interface LifeScript {
  readonly opens?: Opening;
  readonly reactions: readonly Reaction[];
  /** How long the far side takes to be gone once the connection has ended. Default 0. */
  readonly goneAfterMs?: number;
}

export interface Opening {
  /** Default 0. */
  readonly afterMs?: number;
  /** It cannot be opened. */
  readonly fails?: UnreachableCause['kind'];
  /** It neither opens nor fails. */
  readonly hangs?: boolean;
}

export interface Reaction {
  /** A method; `*` for any message; `open` for the moment the connection opened. */
  readonly on: string;
  /** How often it applies; the next reaction that fits takes over then. Default: always. */
  readonly times?: number;
  readonly steps: readonly Step[];
}

/**
 * One thing that is done.
 *
 * In messages, a text that is one of the following stands for an id: `$id` for the id of the message answered, as it
 * came; `$id:text` for it as a string, `$id+1` for the number after it, `$probe` and `$initialize` for the ids of the
 * last `server/discover` and `initialize` of the connection.
 */
export type Step = {
  /** Milliseconds after the message came. Default 0: at once, in order. */
  readonly afterMs?: number;
} & (
  | {
      /** One message; over per-request streams in the answer stream of the message answered. */
      readonly say: JsonValue;
      /** On a pipe: sizes of the chunks in which its bytes come; the rest comes in one. */
      readonly cut?: readonly number[];
      /** On a pipe: the line end. Default `\n`. */
      readonly lineEnd?: '\n' | '\r\n' | '';
      /** Over per-request streams: on no answer stream. */
      readonly outside?: boolean;
    }
  /** On a pipe: bytes, base64, as often as it says; default once. */
  | { readonly bytes: string; readonly repeat?: number }
  /** A whole HTTP answer; on a pipe its messages alone. */
  | { readonly http: HttpAnswer }
  /** Over per-request streams: the answer stream ends well. */
  | { readonly ends: 'complete' }
  /** Over per-request streams: the answer stream breaks. */
  | { readonly ends: 'broken' }
  /** The connection ends. */
  | { readonly closes: CloseCause['kind'] }
  /** The pipe takes nothing more, or takes again. */
  | { readonly pipe: 'hold' | 'release' }
);

export interface HttpAnswer {
  readonly status: number;
  readonly type: 'json' | 'sse' | 'html' | 'text' | 'none';
  /** Messages of the body. A text that is no JSON is given with {@link HttpAnswer.text}. */
  readonly body?: readonly JsonValue[];
  /** A body that is no message. */
  readonly text?: string;
  /** It came through a redirect within the origin. */
  readonly redirected?: boolean;
  readonly retryAfterMs?: number;
}

/** The ids that placeholders stand for. */
export interface KnownIds {
  readonly id: JsonValue | undefined;
  readonly probe: number;
  readonly initialize: number;
}

/** The text of a message, with its placeholders replaced. */
export function writeMessage(message: JsonValue, ids: KnownIds): string {
  return JSON.stringify(message, (_key, value: unknown) => {
    switch (value) {
      case '$id':
        return ids.id;
      case '$id:text':
        return String(ids.id);
      case '$id+1':
        return typeof ids.id === 'number' ? ids.id + 1 : 1;
      case '$probe':
        return ids.probe;
      case '$initialize':
        return ids.initialize;
      default:
        return value;
    }
  });
}
