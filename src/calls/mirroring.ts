/**
 * The headers in which a tool call repeats arguments, as the tool asks for with `x-mcp-header` (2026-07-28,
 * basic/transports). Only modern peers over HTTP see them: nothing of this is asked for any other call.
 */
import { type HeaderScan, mirrorHeaders, scanHeaderAnnotations } from '../protocol/headers.js';
import type { JsonObject } from '../protocol/jsonRpc.js';

/** A schema is immutable: it is read once, however often its tool is listed, merged and called. */
const scans = new WeakMap<JsonObject, HeaderScan>();

/** What an `inputSchema` asks to be repeated, or why its tool cannot be used over HTTP. */
export function headerScanOf(inputSchema: JsonObject): HeaderScan {
  let scan = scans.get(inputSchema);
  if (scan === undefined) {
    scan = scanHeaderAnnotations(inputSchema);
    scans.set(inputSchema, scan);
  }
  return scan;
}

/**
 * The `mcp-param-*` headers of a call; `undefined` for nearly all tools.
 *
 * @param args what the serialized arguments mean: header and body must not disagree (-32020)
 */
export function mirroredHeaders(
  inputSchema: JsonObject,
  args: JsonObject,
): Readonly<Record<string, string>> | undefined {
  const scan = headerScanOf(inputSchema);
  return scan.ok && scan.bindings.length > 0 ? mirrorHeaders(scan.bindings, args) : undefined;
}
