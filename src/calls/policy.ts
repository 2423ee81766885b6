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
   * order. Not asked about the tools named in the peer's `serialize`: each of those is a key. What it throws counts as
   * `undefined` and is counted as the fault `policy`.
   */
  readonly serializeBy?: (call: CallFacts) => string | undefined;
  /**
   * Whether a call that may have reached the server may be sent again. Not asked about the tools named in the peer's
   * `repeatable`: those may. Default: never. What it throws counts as false.
   */
  readonly isRepeatable?: (call: CallFacts) => boolean;
}

/** What the configuration of a peer says of its tools. */
export interface ConfiguredPeer {
  readonly name: string;
  /** Local names of tools whose calls run one after the other, and of those that may be repeated. */
  readonly serialize: ReadonlySet<string>;
  readonly repeatable: ReadonlySet<string>;
  countFault(kind: 'policy'): void;
}

/** The key under which a call is serialized; `undefined` for nearly all. */
export function serializationKey(
  policy: CallPolicy,
  peer: ConfiguredPeer,
  tool: string,
  args: JsonObject,
): string | undefined {
  // The operator's word: a policy cannot take it back.
  if (peer.serialize.size > 0 && peer.serialize.has(tool)) return `tool:${tool}`;
  const { serializeBy } = policy;
  if (serializeBy !== undefined) {
    try {
      const key = serializeBy({ peer: peer.name, tool, args });
      // Apart from the names of tools, which are keys as well.
      if (typeof key === 'string') return `by:${key}`;
    } catch {
      peer.countFault('policy');
    }
  }
  return undefined;
}

/** Whether the host calls this call repeatable. */
export function isRepeatable(
  policy: CallPolicy,
  peer: ConfiguredPeer,
  tool: string,
  args: JsonObject,
): boolean {
  if (peer.repeatable.has(tool)) return true;
  try {
    return policy.isRepeatable?.({ peer: peer.name, tool, args }) === true;
  } catch {
    peer.countFault('policy');
    return false;
  }
}
