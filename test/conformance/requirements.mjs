// What is run: the scenarios that each revision requires, frozen at its release, and those that are reported and never
// scored. They stand here, so that a suite which runs fewer of them is noticed and not believed.

export const MODERN = '2026-07-28';
export const LEGACY = '2025-11-25';

/** Required by both. */
const shared = [
  'tools_call',
  'auth/metadata-default',
  'auth/metadata-var1',
  'auth/metadata-var2',
  'auth/metadata-var3',
  'auth/basic-cimd',
  'auth/scope-from-www-authenticate',
  'auth/scope-from-scopes-supported',
  'auth/scope-omitted-when-undefined',
  'auth/scope-step-up',
  'auth/scope-retry-limit',
  'auth/token-endpoint-auth-basic',
  'auth/token-endpoint-auth-post',
  'auth/token-endpoint-auth-none',
  'auth/pre-registration',
];

export const required = {
  [MODERN]: [
    ...shared,
    'request-metadata',
    'auth/resource-mismatch',
    'auth/offline-access-scope',
    'auth/offline-access-not-supported',
    'auth/authorization-server-migration',
    'auth/iss-supported',
    'auth/iss-not-advertised',
    'auth/iss-supported-missing',
    'auth/iss-wrong-issuer',
    'auth/iss-unexpected',
    'auth/iss-normalized',
    'auth/metadata-issuer-mismatch',
    'sep-2322-client-request-state',
    'http-standard-headers',
    'http-custom-headers',
    'http-invalid-tool-headers',
    'json-schema-ref-no-deref',
  ],
  [LEGACY]: [...shared, 'initialize', 'elicitation-sep1034-client-defaults', 'sse-retry'],
};

/** Reported for both, scored for none. */
export const unscored = [
  'auth/client-credentials-jwt',
  'auth/client-credentials-basic',
  'auth/enterprise-managed-authorization',
  'auth/dpop',
  'auth/dpop-nonce',
  'auth/wif-jwt-bearer',
  'json-schema-2020-12-preservation',
];

/** Where something is wrong with the authorization, and the client must stop before it is let in. */
export const refusals = [
  'auth/scope-retry-limit',
  'auth/resource-mismatch',
  'auth/iss-supported-missing',
  'auth/iss-wrong-issuer',
  'auth/iss-unexpected',
  'auth/iss-normalized',
  'auth/metadata-issuer-mismatch',
];

/**
 * The legs of a run. `revision` is what the suite's servers speak. `allowLegacy`: the driver allowlists the one peer.
 * `judged`: the suite's verdict counts; without it only the wire does, and that nothing hangs.
 */
export const legs = {
  modern: { revision: MODERN, allowLegacy: false, judged: true },
  legacy: { revision: LEGACY, allowLegacy: true, judged: true },
  'legacy-refused': { revision: LEGACY, allowLegacy: false, judged: false },
};

export const scenariosOf = (leg) => [...required[legs[leg].revision], ...unscored];
