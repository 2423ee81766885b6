/** The legacy dialect: `initialize` once, then plain JSON-RPC. Nothing modern is ever in a message (N9). */
import {
  type ClientInfo,
  callerMeta,
  type Dialect,
  joinMembers,
  membersOf,
  writeCancel,
  writeNotification,
} from './dialect.js';
import type { JsonObject } from './jsonRpc.js';

export interface LegacyDialectOptions {
  readonly revision: string;
}

const NO_HEADERS: Readonly<Record<string, string>> = Object.freeze({});

export function legacyDialect(options: LegacyDialectOptions): Dialect {
  return {
    era: 'legacy',
    revision: options.revision,
    request(id, method, members, meta) {
      const extra = method === 'initialize' ? '' : callerMeta(meta);
      const params = joinMembers(members, extra === '' ? '' : `"_meta":{${extra}}`);
      const head = `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)}`;
      return params === '' ? `${head}}` : `${head},"params":{${params}}}`;
    },
    notification: writeNotification,
    response(id, result) {
      return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${JSON.stringify(result)}}`;
    },
    errorResponse(id, code, message) {
      const error = `{"code":${code},"message":${JSON.stringify(message)}}`;
      return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":${error}}`;
    },
    /** Session id and revision are the transport's: they come from the answer to `initialize`. */
    headers: () => NO_HEADERS,
    cancel: writeCancel,
  };
}

/** The params of the one `initialize` request (2025-11-25, basic/lifecycle). */
export function initializeMembers(options: {
  readonly revision: string;
  readonly clientInfo: ClientInfo;
  readonly clientCapabilities: JsonObject;
}): string {
  const { name, version, title } = options.clientInfo;
  return membersOf({
    protocolVersion: options.revision,
    capabilities: options.clientCapabilities,
    // `title` came with 2025-06-18; an older server is not shown a member that it does not know.
    clientInfo:
      title === undefined || options.revision < '2025-06-18' ? { name, version } : { name, version, title },
  });
}
