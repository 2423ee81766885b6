/** Makes the authorization of a peer from its configuration. */
import type { PeerAuthorization, PeerAuthorizationOptions } from './peerAuthorization.js';

export function createPeerAuthorization(options: PeerAuthorizationOptions): PeerAuthorization {
  const { auth } = options;
  const headers = { authorization: 'type' in auth && auth.type === 'bearer' ? `Bearer ${auth.token}` : '' };
  return {
    pendingUrl: null,
    problem: null,
    context: '',
    credentials: () => ({ headers }),
    refused: () => Promise.resolve(false),
    heardNonce: () => undefined,
    redeem: () => Promise.reject(new Error('not yet')),
    close: () => undefined,
  };
}
