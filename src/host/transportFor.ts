/** The transport behind a peer's configuration. */
import type { Clock } from '../transports/clock.js';
import type { HttpAuthorizer } from '../transports/httpAuthorizer.js';
import { legacySseTransport } from '../transports/legacySse.js';
import { stdioTransport } from '../transports/stdio.js';
import { streamableHttpTransport } from '../transports/streamableHttp.js';
import type { TransportFactory } from '../transports/transport.js';
import type { ResolvedOptions, ResolvedPeer } from './config.js';
import { resolveHere } from './pin.js';

/**
 * The executable is resolved once, here, so that what is started is what was pinned (N8); where it is not found the
 * transport is given the command as configured, and fails with the reason.
 */
export function transportFor(
  peer: ResolvedPeer,
  limits: ResolvedOptions,
  clock: Clock,
  authorizer?: HttpAuthorizer,
): TransportFactory {
  const { maxMessageBytes, shutdownGraceMs } = limits;
  switch (peer.transport) {
    case 'stdio': {
      const found = resolveHere(peer);
      const command = found.ok ? found.file : peer.command;
      const { args, cwd, env } = peer;
      return stdioTransport({ command, args, cwd, env, maxMessageBytes, shutdownGraceMs, clock });
    }
    case 'streamable-http':
    case 'legacy-sse': {
      const { url, headers, proxy } = peer;
      const options = { url, headers, proxy, authorizer, maxMessageBytes, clock };
      return peer.transport === 'legacy-sse' ? legacySseTransport(options) : streamableHttpTransport(options);
    }
    case 'custom':
      return peer.createTransport;
  }
}
