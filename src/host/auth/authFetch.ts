/**
 * What a flow asks other servers with: metadata, registration, tokens. They are named by the peer, so all is bounded, no
 * address is trusted, and nothing that is configured for the peer goes along.
 */
import type { Socket } from 'node:net';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import type { buildConnector, Dispatcher } from 'undici';
import type { Clock } from '../../transports/clock.js';
import { AddressGuard, AuthFetchError } from './addressGuard.js';
import { type FlowNotes, noteRequest } from './flowNotes.js';

export interface AuthFetchOptions {
  /** The peer's endpoint. */
  readonly endpoint: URL;
  readonly proxy: string | undefined;
  readonly clock: Clock;
  readonly guard?: AddressGuard;
}

export type FetchLike = (url: string | URL, init?: RequestInit) => Promise<Response>;

/** Metadata are a few KiB; key sets and long lists of scopes fit as well. */
const MAX_BODY_BYTES = 1024 * 1024;
const TIMEOUT_MS = 10_000;
const MAX_REDIRECTS = 3;
/** Longer ones open nowhere. */
const MAX_PAGE_LENGTH = 16 * 1024;
const MAX_DESCRIPTION_LENGTH = 500;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const BODILESS: ReadonlySet<number> = new Set([204, 205, 304]);
/** What the flow reads of an answer's head. */
const HEADERS_KEPT = ['content-type', 'dpop-nonce', 'www-authenticate', 'retry-after'];

type RequestFunction = typeof import('undici').request;

interface Outgoing {
  readonly method: Dispatcher.HttpMethod;
  readonly headers: Record<string, string>;
  readonly body: string | null;
}

interface Incoming {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly body: Buffer;
}

export class AuthFetch {
  readonly #options: AuthFetchOptions;
  readonly #guard: AddressGuard;
  readonly #underWay = new Set<AbortController>();
  readonly #sockets = new Set<Socket>();
  #line: Promise<{ readonly request: RequestFunction; readonly dispatcher: Dispatcher }> | null = null;
  #closed = false;

  constructor(options: AuthFetchOptions) {
    this.#options = options;
    this.#guard = options.guard ?? new AddressGuard(options.endpoint);
  }

  /** The function for one flow. What it sends is noted; of an answer that tells of an error only the code is passed on. */
  for(notes: FlowNotes): FetchLike {
    return async (input, init = {}) => {
      const url = new URL(input);
      url.username = '';
      url.password = '';
      const outgoing = outgoingOf(init);
      noteRequest(notes, outgoing);
      const incoming = await this.#follow(url, outgoing);
      return responseOf(incoming, notes, { url, isQuestion: outgoing.method === 'GET' });
    };
  }

  /**
   * Whether a person may be sent there: the server names that page as well, and whoever opens it may hand it to the
   * system, for which a URL can be a program to start.
   *
   * @throws {AuthFetchError} as a rejection
   */
  async admitPage(url: URL): Promise<void> {
    if (url.username !== '' || url.password !== '') {
      throw new AuthFetchError('the page where access is granted has a URL with a user name');
    }
    if (url.href.length > MAX_PAGE_LENGTH) {
      throw new AuthFetchError('the page where access is granted has a URL that is too long');
    }
    await this.#guard.admit(url);
  }

  close(): void {
    this.#closed = true;
    for (const control of this.#underWay) control.abort();
    void this.#line?.then(({ dispatcher }) => dispatcher.destroy()).catch(() => undefined);
    for (const socket of this.#sockets) socket.destroy(new Error('closed by this side'));
  }

  async #follow(url: URL, outgoing: Outgoing): Promise<Incoming> {
    let target = url;
    for (let followed = 0; ; followed += 1) {
      await this.#guard.admit(target);
      const incoming = await this.#exchange(target, outgoing);
      const location = incoming.headers['location'];
      if (!REDIRECTS.has(incoming.status) || typeof location !== 'string') return incoming;
      // A redirect would take what a POST carries, codes and secrets, wherever an answer says.
      const next =
        outgoing.method === 'GET' && URL.canParse(location, target.href)
          ? new URL(location, target.href)
          : null;
      if (next === null || next.origin !== target.origin || followed === MAX_REDIRECTS) {
        throw new AuthFetchError(`${shown(target)} answers with a redirect that is not followed`);
      }
      next.username = '';
      next.password = '';
      target = next;
    }
  }

  async #exchange(target: URL, outgoing: Outgoing): Promise<Incoming> {
    if (this.#closed) throw new AuthFetchError('the peer was removed or stopped');
    const control = new AbortController();
    this.#underWay.add(control);
    let isLate = false;
    const timer = this.#options.clock.setTimeout(() => {
      isLate = true;
      control.abort();
    }, TIMEOUT_MS);
    try {
      this.#line ??= this.#open();
      const { request, dispatcher } = await this.#line;
      const { statusCode, headers, body } = await request(target, {
        ...outgoing,
        dispatcher,
        signal: control.signal,
        headersTimeout: 0,
        bodyTimeout: 0,
      });
      const chunks: Buffer[] = [];
      let length = 0;
      for await (const chunk of body as AsyncIterable<Buffer>) {
        length += chunk.length;
        if (length > MAX_BODY_BYTES)
          throw new AuthFetchError(`${shown(target)} answers with more than 1 MiB`);
        chunks.push(chunk);
      }
      return {
        status: statusCode,
        headers,
        body: decoded(Buffer.concat(chunks), headers['content-encoding']),
      };
    } catch (error) {
      if (isLate) throw new AuthFetchError(`${shown(target)} does not answer within ${TIMEOUT_MS / 1000} s`);
      if (this.#closed) throw new AuthFetchError('the peer was removed or stopped');
      throw guarded(error) ?? new AuthFetchError(`${shown(target)} cannot be asked: ${shortly(error)}`);
    } finally {
      this.#options.clock.clearTimeout(timer);
      this.#underWay.delete(control);
    }
  }

  async #open(): Promise<{ readonly request: RequestFunction; readonly dispatcher: Dispatcher }> {
    const { Agent, ProxyAgent, buildConnector, request } = await import('undici');
    if (this.#closed) throw new AuthFetchError('the peer was removed or stopped');
    const { proxy } = this.#options;
    if (proxy !== undefined) {
      // Who resolves names is the proxy then; it was configured to decide what is reached.
      return { request, dispatcher: new ProxyAgent({ uri: proxy, proxyTunnel: true }) };
    }
    const connect = buildConnector({ timeout: 0, autoSelectFamily: true, lookup: this.#guard.lookup });
    return { request, dispatcher: new Agent({ connect: this.#watched(connect), maxOrigins: 32 }) };
  }

  /** undici does not end connections that are still being made. */
  #watched(connect: buildConnector.connector): buildConnector.connector {
    const make = connect as unknown as (...args: Parameters<typeof connect>) => Socket | undefined;
    return (options, callback) => {
      const socket = make(options, callback);
      if (socket === undefined) return;
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    };
  }
}

function outgoingOf(init: RequestInit): Outgoing {
  const headers = Object.fromEntries(new Headers(init.headers as Record<string, string>));
  const { body } = init;
  if (body instanceof URLSearchParams) headers['content-type'] ??= 'application/x-www-form-urlencoded';
  return {
    method: (init.method ?? 'GET').toUpperCase() as Dispatcher.HttpMethod,
    headers: {
      'user-agent': 'peerage',
      accept: 'application/json',
      ...headers,
      'accept-encoding': 'identity',
    },
    body: body === undefined || body === null ? null : String(body),
  };
}

interface Asked {
  readonly url: URL;
  /** Nothing was sent that is secret, and nothing secret is due. */
  readonly isQuestion: boolean;
}

/**
 * The official package prints what it cannot read, and what it is told of an error, and a server may repeat a secret
 * in any form. So nothing of either reaches it: a code is all that it acts upon.
 */
function responseOf(incoming: Incoming, notes: FlowNotes, { url, isQuestion }: Asked): Response {
  const { status } = incoming;
  const headers = new Headers();
  for (const name of HEADERS_KEPT) {
    const value = incoming.headers[name];
    if (typeof value === 'string') headers.set(name, value);
  }
  if (status < 200 || status > 599) throw new AuthFetchError(`an answer has the HTTP status ${status}`);
  const text = incoming.body.toString('utf8');
  const value = parsed(text);
  const error = errorIn(value, status < 300);
  let body = text;
  if (status >= 300 || error !== null) {
    notes.refusal = { status, code: error?.code ?? null, description: error?.description ?? null };
    body = error?.isReadable === true ? JSON.stringify({ error: error.code }) : '';
  } else if (value === undefined) {
    if (!isQuestion) throw new AuthFetchError(`${shown(url)} answers with what is no JSON`);
    body = '';
  }
  return new Response(BODILESS.has(status) ? null : body, { status, headers });
}

interface ToldError {
  /** `unknown` where there is one that cannot be shown. */
  readonly code: string;
  readonly isReadable: boolean;
  readonly description: string | null;
}

/** Some tell of errors with 200, and some say with what they grant that there is none. */
function errorIn(value: unknown, isSuccess: boolean): ToldError | null {
  if (typeof value !== 'object' || value === null || !('error' in value)) return null;
  const { error, error_description: told, access_token: token } = value as Record<string, unknown>;
  const isText = typeof error === 'string' && error !== '';
  if (isSuccess && (!isText || typeof token === 'string')) return null;
  const isReadable = isText && /^[\w.-]{1,64}$/.test(error);
  const description = typeof told === 'string' ? told.slice(0, MAX_DESCRIPTION_LENGTH) : null;
  return { code: isReadable ? error : 'unknown', isReadable, description };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Some compress whatever they are asked. */
function decoded(body: Buffer, encoding: string | string[] | undefined): Buffer {
  const limit = { maxOutputLength: MAX_BODY_BYTES };
  switch (encoding) {
    case undefined:
    case 'identity':
      return body;
    case 'gzip':
      return gunzipSync(body, limit);
    case 'deflate':
      return inflateSync(body, limit);
    case 'br':
      return brotliDecompressSync(body, limit);
    default:
      throw new AuthFetchError('an answer is compressed in a way that was not asked for');
  }
}

/** The guard's own word, wherever it ended up in an error of a connection. */
function guarded(error: unknown): AuthFetchError | null {
  if (error instanceof AuthFetchError) return error;
  if (error instanceof AggregateError) return error.errors.map(guarded).find((one) => one !== null) ?? null;
  return error instanceof Error && error.cause !== undefined ? guarded(error.cause) : null;
}

function shortly(error: unknown): string {
  if (!(error instanceof Error)) return 'the connection failed';
  const code: unknown = 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : error.name;
}

function shown(url: URL): string {
  return url.origin.slice(0, 200);
}
