/** Errors of Node and undici, read as causes. Details are plain sentences, not sanitized yet, and never empty. */
import type { CloseCause } from '../protocol/exchange.js';

/** Made by the connector when a connection took too long. */
export class ConnectTimeoutError extends Error {
  readonly code = 'CONNECT_TIMEOUT';
  constructor(timeoutMs: number) {
    super(`no connection within ${timeoutMs} ms`);
    this.name = 'ConnectTimeoutError';
  }
}

/** No connection, and the proxy is why. The message is a sentence. */
export class ProxyError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ProxyError';
  }
}

const SENTENCES: ReadonlyMap<string, string> = new Map([
  ['ECONNREFUSED', 'connection refused'],
  ['ENOTFOUND', 'the host name is unknown'],
  ['EAI_AGAIN', 'the host name could not be looked up'],
  ['ECONNRESET', 'the connection was reset'],
  ['EPIPE', 'the connection was closed while writing'],
  ['ETIMEDOUT', 'the connection timed out'],
  ['EHOSTUNREACH', 'no route to the host'],
  ['ENETUNREACH', 'no route to the network'],
  ['EADDRNOTAVAIL', 'the address is not available'],
  ['EMFILE', 'too many open files in this process'],
  ['CERT_HAS_EXPIRED', "the server's certificate has expired"],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', "the server's certificate is self-signed"],
  ['SELF_SIGNED_CERT_IN_CHAIN', "the server's certificate chain is self-signed"],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', "the server's certificate cannot be verified"],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', "the issuer of the server's certificate is not trusted"],
  ['ERR_TLS_CERT_ALTNAME_INVALID', "the server's certificate is for another host name"],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'the server does not speak TLS on this port; is the URL http:?'],
  ['ERR_SSL_PACKET_LENGTH_TOO_LONG', 'the server does not speak TLS on this port; is the URL http:?'],
  ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'the server asks for a certificate of this client'],
  ['UND_ERR_SOCKET', 'the connection was closed'],
  ['UND_ERR_HEADERS_OVERFLOW', 'the headers of the answer are too long'],
  ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', 'the answer is shorter or longer than it says'],
]);

/**
 * One sentence about an error. An `AggregateError` (one attempt for each address of a host name) is unwrapped: its
 * own message is empty.
 */
export function describeError(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) {
    return [...new Set(error.errors.slice(0, 4).map(describeError))].join('; ');
  }
  if (!(error instanceof Error)) return 'unknown error';
  const code = codeOf(error);
  const sentence = code === undefined ? undefined : SENTENCES.get(code);
  const where = addressOf(error);
  if (sentence !== undefined)
    return where === '' ? `${sentence} (${code})` : `${where}: ${sentence} (${code})`;
  const said = error.message.trim();
  if (said !== '') return code === undefined || said.includes(code) ? said : `${said} (${code})`;
  if (error.cause !== undefined && error.cause !== error) return describeError(error.cause);
  return code ?? (error.name || 'unknown error');
}

/**
 * What broke an exchange whose request was written.
 *
 * @param answered whether the status line and headers had arrived
 */
export function closeCauseOf(error: unknown, answered: boolean): CloseCause {
  const code = error instanceof Error ? codeOf(error) : undefined;
  const noHttp = error instanceof Error && error.name === 'HTTPParserError';
  if (noHttp || code === 'UND_ERR_HEADERS_OVERFLOW') {
    return { kind: 'protocol', detail: `the answer is no HTTP that can be read: ${describeError(error)}` };
  }
  if (!answered) return { kind: 'reset', detail: `no answer: ${describeError(error)}` };
  const cut = code !== undefined && ENDS.has(code);
  return { kind: cut ? 'stream-ended' : 'reset', detail: `the answer was cut off: ${describeError(error)}` };
}

/** The far side closed in good order, and too early. */
const ENDS: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH']);

function codeOf(error: Error): string | undefined {
  const code: unknown = 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}

function addressOf(error: Error): string {
  const address: unknown = 'address' in error ? error.address : undefined;
  const port: unknown = 'port' in error ? error.port : undefined;
  if (typeof address === 'string') {
    const host = address.includes(':') ? `[${address}]` : address;
    return typeof port === 'number' ? `${host}:${port}` : host;
  }
  const hostname: unknown = 'hostname' in error ? error.hostname : undefined;
  return typeof hostname === 'string' ? hostname : '';
}

/** The two sides do not agree on TLS: an alert of the far side, or bytes that are none. */
export function isTlsError(error: Error): boolean {
  return codeOf(error)?.startsWith('ERR_SSL_') === true;
}

/** undici would not take the request (a header that cannot be written, a destroyed pool), and never will. */
export function isRefusedRequest(error: Error): boolean {
  const code = codeOf(error);
  return code?.startsWith('UND_ERR_') === true && code !== 'UND_ERR_SOCKET';
}

/** Longest waiting time that is believed: 24 h. */
const MAX_RETRY_AFTER_MS = 24 * 60 * 60 * 1000;

/**
 * Reads `Retry-After`: seconds or an HTTP date (RFC 9110, 10.2.3).
 *
 * @param nowMs wall clock, since the date is one
 * @returns milliseconds, 0 … 24 h; `undefined` where there is nothing to read
 */
export function readRetryAfter(value: string | undefined, nowMs: number): number | undefined {
  if (value === undefined) return undefined;
  const text = value.trim();
  if (/^\d+(?:\.\d+)?$/.test(text)) return Math.min(Math.ceil(Number(text) * 1000), MAX_RETRY_AFTER_MS);
  // Names of days and months only: `Date.parse` reads far more than a date of HTTP.
  if (!/^[A-Za-z]{3,9},? /.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.min(Math.max(at - nowMs, 0), MAX_RETRY_AFTER_MS);
}
