/** Connections through an HTTP proxy: CONNECT (RFC 9110, 9.3.6), then TLS to the endpoint where its URL is `https:`. */
import type { Socket } from 'node:net';
import type { buildConnector, Client } from 'undici';
import { describeError, ProxyError } from './httpErrors.js';
import type { HttpProxy } from './httpTarget.js';

/**
 * Makes one connection. Each socket on the way there goes through `watch`, so that its owner may destroy it at any
 * moment; that is an error for `done`, which is called once.
 */
export type Connect = (
  options: buildConnector.Options,
  watch: (socket: Socket) => void,
  done: buildConnector.Callback,
) => void;

/** undici's own returns the socket, which its types do not say. */
export type Connector = (options: buildConnector.Options, callback: buildConnector.Callback) => Socket;

/**
 * Errors on the way to the proxy and its refusals are {@link ProxyError}s. One without a code of undici's, too: undici
 * takes some of its own for a reason to connect again, at once and for ever.
 *
 * @param connector without a deadline of its own
 */
export function tunnelThrough(proxy: HttpProxy, UndiciClient: typeof Client, connector: Connector): Connect {
  const shown = `the proxy ${proxy.url.host}`;
  return (options, watch, done) => {
    // One client a tunnel: the socket leaves it when the tunnel is there.
    const client = new UndiciClient(proxy.url.origin, {
      headersTimeout: 0,
      connect: ({ servername: _endpoint, ...toProxy }, callback) => watch(connector(toProxy, callback)),
    });
    const authority = authorityOf(options);
    const headers = { ...proxy.headers, host: authority };
    client.connect({ path: authority, headers }, (error, tunnel) => {
      void client.destroy();
      if (error !== null) {
        done(new ProxyError(`${shown}: ${describeError(error)}`), null);
        return;
      }
      // What listens for errors of this socket is undici's connector, for the whole of its life.
      const socket = tunnel.socket as Socket;
      const { statusCode } = tunnel;
      if (statusCode < 200 || statusCode > 299) {
        socket.destroy();
        done(new ProxyError(`${shown} ${refusalOf(statusCode)}`), null);
      } else if (options.protocol === 'https:') {
        watch(connector({ ...options, httpSocket: socket }, done));
      } else {
        done(null, socket);
      }
    });
  };
}

/** The authority form of the endpoint: the port is never left out (RFC 9112, 3.2.3). */
function authorityOf({ host, hostname, port, protocol }: buildConnector.Options): string {
  const named = host ?? hostname;
  return port === '' ? `${named}:${protocol === 'https:' ? 443 : 80}` : named;
}

function refusalOf(status: number): string {
  if (status === 407) return 'asks for other credentials (HTTP 407)';
  return `refused the connection (HTTP ${status})`;
}
