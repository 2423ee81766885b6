/** A token that the operator has: sent as it is, and not renewed. */
import { hash } from 'node:crypto';
import type { Credentials } from '../../transports/httpAuthorizer.js';
import { AuthorizationError } from '../errors.js';
import type { PeerAuthorization } from './peerAuthorization.js';

export function bearerAuthorization(peer: string, token: string): PeerAuthorization {
  const credentials: Credentials = { headers: { authorization: `Bearer ${token}` } };
  let isClosed = false;
  return {
    pendingUrl: null,
    problem: null,
    remedy: 'Configure another token for this peer: the server does not take the one in auth.',
    context: hash('sha256', `peerage bearer\n${token}`, 'hex'),
    credentials: () => (isClosed ? null : credentials),
    refused: () => Promise.resolve(false),
    heardNonce: () => undefined,
    reconsider: () => undefined,
    redeem: () =>
      Promise.reject(new AuthorizationError(peer, 'a fixed token is configured, so nothing can be redeemed')),
    withoutSecrets: (text) => text,
    close: () => {
      isClosed = true;
    },
  };
}
