// What the operator configures as `auth` in each scenario: where it can be, what this package offers; a provider of the
// driver's own for tokens that are bound to a key and for a grant that this package does not know.

import {
  CrossAppAccessProvider,
  DpopSession,
  discoverOAuthProtectedResourceMetadata,
  requestJwtAuthorizationGrant,
} from '@modelcontextprotocol/client';
import { createOAuthProvider } from 'peerage';
import { MemoryProvider, REDIRECT_URL } from './memoryProvider.mjs';

/** Where the suite's servers expect the client's metadata document to be. */
const CLIENT_METADATA_URL = 'https://conformance-test.local/client-metadata.json';
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

/** Credentials are registered with one authorization server, and whoever registered them knows which. */
async function issuerOf(url) {
  const { authorization_servers: servers } = await discoverOAuthProtectedResourceMetadata(url);
  return servers[0];
}

const provider = (options) =>
  createOAuthProvider({ redirectUrl: REDIRECT_URL, clientName: 'peerage conformance driver', ...options });

const special = {
  'auth/basic-cimd': () => provider({ clientMetadataUrl: CLIENT_METADATA_URL }),

  'auth/pre-registration': ({ context }) =>
    provider({
      client: {
        clientId: context.client_id,
        clientSecret: context.client_secret,
        issuer: context.issuer,
      },
    }),

  'auth/client-credentials-basic': async ({ context, url }) => ({
    type: 'client-credentials',
    clientId: context.client_id,
    clientSecret: context.client_secret,
    issuer: await issuerOf(url),
  }),

  'auth/client-credentials-jwt': async ({ context, url }) => ({
    type: 'private-key-jwt',
    clientId: context.client_id,
    privateKey: context.private_key_pem,
    algorithm: context.signing_algorithm,
    issuer: await issuerOf(url),
  }),

  'auth/enterprise-managed-authorization': async ({ context, url }) =>
    new CrossAppAccessProvider({
      clientId: context.client_id,
      clientSecret: context.client_secret,
      expectedIssuer: await issuerOf(url),
      assertion: async ({ authorizationServerUrl, resourceUrl, scope, fetchFn }) => {
        const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
          tokenEndpoint: context.idp_token_endpoint,
          audience: authorizationServerUrl,
          resource: resourceUrl,
          idToken: context.idp_id_token,
          clientId: context.idp_client_id,
          scope,
          fetchFn,
        });
        return jwtAuthGrant;
      },
    }),

  'auth/dpop': async () => new MemoryProvider({ dpop: await DpopSession.create() }),
  'auth/dpop-nonce': async () => new MemoryProvider({ dpop: await DpopSession.create() }),

  // Workload identity: the platform has given this process a token that stands for it.
  'auth/wif-jwt-bearer': async ({ context, url }) =>
    new MemoryProvider({
      interactive: false,
      client: { client_id: context.client_id, issuer: await issuerOf(url) },
      grant: (scope) =>
        new URLSearchParams({
          grant_type: JWT_BEARER,
          assertion: context.valid_jwt,
          ...(scope === undefined ? {} : { scope }),
        }),
    }),
};

/** @returns `auth` of the peer's configuration; `undefined` where the scenario has nothing to do with it */
export async function credentialsFor({ scenario, url, context }) {
  if (!scenario.startsWith('auth/')) return undefined;
  return special[scenario] === undefined ? provider({}) : special[scenario]({ url, context });
}
