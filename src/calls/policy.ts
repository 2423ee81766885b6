/** What the host says about calls. A server's own word (annotations) never counts here. */
import type { JsonObject } from '../protocol/jsonRpc.js';

/** What a policy may look at. */
export interface CallFacts {
  readonly peer: string;
  /** The tool's name as the server declared it. */
  readonly tool: string;
  readonly args: JsonObject;
}

export interface CallPolicy {
  /**
   * Calls of one peer with the same key run one after the other, in the order in which they came. `undefined`: no
   * order. Default: none, but for the tools named in the peer's `serialize`. What it throws counts as `undefined`
   * and is counted as the fault `policy`.
   */
  readonly serializeBy?: (call: CallFacts) => string | undefined;
  /**
   * Whether a call that may have reached the server may be sent again. Default: never, but for the tools named in the
   * peer's `repeatable`. What it throws counts as false.
   */
  readonly isRepeatable?: (call: CallFacts) => boolean;
}
