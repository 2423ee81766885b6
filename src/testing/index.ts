/**
 * Entry point `peerage/testing`: time that is moved by hand, far sides that follow a script, the recorded wire, and the
 * era rules as checks over it. Arbitraries for far sides are in `peerage/testing/arbitraries`.
 */
export {
  type MemoryControl,
  type MemoryOptions,
  type MemoryPeer,
  type MemoryRequest,
  memoryTransport,
} from '../transports/memory.js';
export { createSimulatedClock, type SimulatedClock } from './clock.js';
export { advance, quiet, settled } from './drive.js';
export {
  CHECKS,
  type Check,
  CONNECTION_CHECKS,
  checkTrace,
  type OracleConfig,
  stateOnWire,
  type Violation,
  type WireState,
} from './invariants.js';
export {
  type HttpAnswer,
  type KnownIds,
  type LifeScript,
  type Opening,
  type Reaction,
  type Script,
  type Step,
  writeMessage,
} from './script.js';
export { lives, type ScriptedOptions, scriptedPeer, scriptedTransport } from './scriptedPeer.js';
export { ScriptPlayer, type Stage } from './scriptPlayer.js';
export { type HostCommand, type RecordedPeer, type WireEvent, WireTrace } from './wireTrace.js';
