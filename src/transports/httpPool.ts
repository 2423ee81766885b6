/**
 * The connections to one origin. undici is used below `fetch`, with one pool an owner and no state shared with anything
 * else in the process. No limit on connections: an open stream must not keep a call from its socket.
 */
import type { Socket } from 'node:net';
import type { buildConnector, Client, Dispatcher } from 'undici';
import type { Clock } from './clock.js';
import { ConnectTimeoutError } from './httpErrors.js';
import type { HttpProxy } from './httpTarget.js';
import { type Connect, type Connector, tunnelThrough } from './httpTunnel.js';
import { lookupWithLoopback } from './loopbackLookup.js';

/** One connection of the pool after another; at most one request is on it at a time. */
export interface Line {
  socket: Socket | null;
  /** The first error of that socket: undici tells of the last one, which may be no more than that it was closed. */
  error: Error | null;
  /** Clock time at which it was connected, or was given a request. */
  usedAt: number;
}

/** What undici is given. It wraps the handler on its way to a line, so who sends travels with the options. */
export interface LineRequest extends Dispatcher.DispatchOptions {
  /** Is told the line as soon as the pool has put the request on one. */
  readonly caller: { line: Line | null };
}

export interface HttpPool {
  /** Hands a request to undici; may call the handler at once. */
  dispatch(request: LineRequest, handler: Dispatcher.DispatchHandler): void;
  /** Whether this error ended the making of a connection: nothing was written on it. */
  isConnectError(error: unknown): boolean;
  /** Every socket that is not closed yet, also those that still connect. */
  readonly sockets: ReadonlySet<Socket>;
  /** Destroys what there is. Resolves when nothing is left. */
  close(): Promise<void>;
}

export interface HttpPoolOptions {
  readonly origin: string;
  /** Null: connections are made directly. No variable of the environment is read. */
  readonly proxy: HttpProxy | null;
  /** Longest making of one connection, TLS included. Default 10 s. */
  readonly connectTimeoutMs: number | undefined;
  readonly clock: Clock;
}

const CONNECT_TIMEOUT_MS = 10_000;
/** Before the next address of a name is tried. Node's own 250 ms gives up on addresses that are merely far away. */
const ADDRESS_ATTEMPT_TIMEOUT_MS = 500;
/**
 * Below the 5 s after which servers on Node close an idle connection: a message must not meet the close halfway. A
 * connection that was given its last request longer ago is not used again, however late undici's timer is.
 */
const KEEP_ALIVE_MS = 4000;

/** undici costs more than the rest of the package together: only who has an HTTP peer pays for it. */
export async function createHttpPool(options: HttpPoolOptions): Promise<HttpPool> {
  const { Client, Pool, buildConnector } = await import('undici');
  const sockets = new Set<Socket>();
  const connectErrors = new WeakSet<object>();
  const connector = buildConnector({
    timeout: 0,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ADDRESS_ATTEMPT_TIMEOUT_MS,
    lookup: lookupWithLoopback,
  }) as Connector;
  const { proxy } = options;
  const connect = watched(
    proxy === null ? directly(connector) : tunnelThrough(proxy, Client, connector),
    options,
    sockets,
    connectErrors,
  );
  const pool = new Pool(options.origin, {
    keepAliveTimeout: KEEP_ALIVE_MS,
    factory: (origin, clientOptions) => clientWithLine(Client, origin, clientOptions, connect, options.clock),
  });
  return {
    dispatch: (request, handler) => void pool.dispatch(request, handler),
    isConnectError: (error) => typeof error === 'object' && error !== null && connectErrors.has(error),
    sockets,
    async close() {
      const destroyed = pool.destroy();
      await Promise.all([destroyed, ...[...sockets].map(destroySocket)]);
    },
  };
}

type WatchedConnect = (options: buildConnector.Options, callback: buildConnector.Callback) => void;

function directly(connector: Connector): Connect {
  return (options, watch, done) => watch(connector(options, done));
}

/** With the owner's clock, and with every socket in sight: also one that still connects. */
function watched(
  connect: Connect,
  { clock, connectTimeoutMs = CONNECT_TIMEOUT_MS }: HttpPoolOptions,
  sockets: Set<Socket>,
  connectErrors: WeakSet<object>,
): WatchedConnect {
  return (options, callback) => {
    let current: Socket | null = null;
    const timer = clock.setTimeout(
      () => current?.destroy(new ConnectTimeoutError(connectTimeoutMs)),
      connectTimeoutMs,
    );
    const watch = (socket: Socket): void => {
      current = socket;
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    };
    connect(options, watch, (...result) => {
      clock.clearTimeout(timer);
      const [error] = result;
      if (error !== null) connectErrors.add(error);
      callback(...result);
    });
  };
}

/** A client of the pool that tells each request which line it is on. */
function clientWithLine(
  UndiciClient: typeof Client,
  origin: URL,
  options: object,
  connect: WatchedConnect,
  clock: Clock,
): Client {
  const line: Line = { socket: null, error: null, usedAt: 0 };
  const client = new UndiciClient(origin, {
    ...options,
    connect: (connection, callback) =>
      connect(connection, (...result) => {
        const [, socket] = result;
        line.socket = socket;
        line.error = null;
        socket?.once('error', (error) => {
          if (line.socket === socket) line.error = error;
        });
        line.usedAt = clock.now();
        callback(...result);
      }),
  });
  const dispatch = client.dispatch.bind(client);
  client.dispatch = (request, handler) => {
    if ('caller' in request) (request as LineRequest).caller.line = line;
    const now = clock.now();
    // A process that was held up comes here before the timer: the request then waits for another connection.
    if (now - line.usedAt > KEEP_ALIVE_MS && client.stats.running === 0) line.socket?.destroy();
    line.usedAt = now;
    return dispatch(request, handler);
  };
  return client;
}

function destroySocket(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once('close', () => resolve());
    // With an error: the connector's callback is waiting for one or the other.
    socket.destroy(new Error('closed by this side'));
  });
}
