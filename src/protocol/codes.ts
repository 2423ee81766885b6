/** Error codes, and which of them are recognized modern errors (specification 2026-07-28, basic/index). */

/** HTTP headers and body disagree. */
export const HEADER_MISMATCH = -32020;
/** The server needs a client capability that the request did not declare. */
export const MISSING_REQUIRED_CLIENT_CAPABILITY = -32021;
/** The server does not speak the revision of the request. */
export const UNSUPPORTED_PROTOCOL_VERSION = -32022;

export const PARSE_ERROR = -32700;
export const INVALID_REQUEST = -32600;
export const METHOD_NOT_FOUND = -32601;
export const INVALID_PARAMS = -32602;
export const INTERNAL_ERROR = -32603;

/**
 * Whether `code` is one of the three published codes that only a modern server sends. Their draft numbers
 * (-32003, -32004, …) are other servers' own errors and mean nothing.
 */
export function isRecognizedModernCode(code: unknown): code is -32020 | -32021 | -32022 {
  return (
    code === HEADER_MISMATCH ||
    code === MISSING_REQUIRED_CLIENT_CAPABILITY ||
    code === UNSUPPORTED_PROTOCOL_VERSION
  );
}
