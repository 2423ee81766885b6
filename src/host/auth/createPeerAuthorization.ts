/** Makes the authorization of a peer from its configuration. */

import { isAuthProvider } from '../authChecks.js';
import { bearerAuthorization } from './bearer.js';
import { OAuthAuthorization } from './oauthAuthorization.js';
import type { PeerAuthorization, PeerAuthorizationOptions } from './peerAuthorization.js';

export function createPeerAuthorization(options: PeerAuthorizationOptions): PeerAuthorization {
  const { auth } = options;
  if (!isAuthProvider(auth) && auth.type === 'bearer') return bearerAuthorization(options.peer, auth.token);
  return new OAuthAuthorization(options, auth);
}
