/** The modern dialect: no handshake, every request says its revision, client and capabilities (N15). */
import {
  type ClientInfo,
  callerMeta,
  type Dialect,
  joinMembers,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
  writeCancel,
  writeNotification,
} from './dialect.js';
import { encodeHeaderValue } from './headers.js';
import type { JsonObject } from './jsonRpc.js';

export interface ModernDialectOptions {
  readonly revision: string;
  readonly clientInfo: ClientInfo;
  /** What this client offers to servers; `{}` for nothing. */
  readonly clientCapabilities: JsonObject;
}

/** Methods whose target is mirrored in `Mcp-Name` (2026-07-28, basic/transports, standard request headers). */
const NAMED_METHODS: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);

/**
 * The options are read once: the part of `_meta` that never changes is serialized here, so that a request without
 * extra `_meta` is string concatenation.
 */
export function modernDialect(options: ModernDialectOptions): Dialect {
  const { revision } = options;
  const stamp =
    `${JSON.stringify(META_PROTOCOL_VERSION)}:${JSON.stringify(revision)},` +
    `${JSON.stringify(META_CLIENT_INFO)}:${JSON.stringify(options.clientInfo)},` +
    `${JSON.stringify(META_CLIENT_CAPABILITIES)}:${JSON.stringify(options.clientCapabilities)}`;
  const stampOnly = `"_meta":{${stamp}}`;

  return {
    era: 'modern',
    revision,
    request(id, method, members, meta) {
      if (method === 'initialize') throw new Error('initialize does not exist in the modern dialect');
      const metaMember = meta === undefined ? stampOnly : `"_meta":{${joinMembers(stamp, callerMeta(meta))}}`;
      const params = joinMembers(members, metaMember);
      return `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":{${params}}}`;
    },
    notification: writeNotification,
    response() {
      throw new Error('a modern peer is never answered');
    },
    errorResponse() {
      throw new Error('a modern peer is never answered');
    },
    headers(method, nameOrUri) {
      return nameOrUri !== undefined && NAMED_METHODS.has(method)
        ? { 'mcp-protocol-version': revision, 'mcp-method': method, 'mcp-name': encodeHeaderValue(nameOrUri) }
        : { 'mcp-protocol-version': revision, 'mcp-method': method };
    },
    cancel: writeCancel,
  };
}
