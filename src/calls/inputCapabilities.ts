/**
 * What a host declares to servers: exactly what it has handlers for.
 *
 * The same object serves both eras. Revisions before 2025-11-25 know `elicitation`, `sampling` and `roots` as open
 * objects and pass over members that they do not know. `roots.listChanged` is never declared: this client sends no
 * `notifications/roots/list_changed`.
 */
import type { JsonObject } from '../protocol/jsonRpc.js';
import type { InputHandlers } from './inputHandlers.js';

/** `ClientCapabilities` (schema of every revision); `{}` where nothing is handled. */
export function capabilitiesOf(handlers: InputHandlers): JsonObject {
  const { elicitForm, elicitUrl, sample, sampling, listRoots } = handlers;
  const capabilities: Record<string, JsonObject> = {};
  if (elicitForm !== undefined || elicitUrl !== undefined) {
    // Never `{}`: that would mean forms (client/elicitation, capabilities).
    capabilities['elicitation'] = {
      ...(elicitForm === undefined ? {} : { form: {} }),
      ...(elicitUrl === undefined ? {} : { url: {} }),
    };
  }
  if (sample !== undefined) {
    capabilities['sampling'] = {
      ...(sampling?.tools === true ? { tools: {} } : {}),
      ...(sampling?.context === true ? { context: {} } : {}),
    };
  }
  if (listRoots !== undefined) capabilities['roots'] = {};
  return capabilities;
}
