/** The public surface of `peerage`. */
export { createKeyvStore, type KeyvLike } from './cache/keyvStore.js';
export { createMemoryStore, type MemoryStoreOptions } from './cache/memoryStore.js';
export type { Store } from './cache/store.js';
export type {
  ElicitResult,
  FormElicitation,
  InputContext,
  InputHandlers,
  Root,
  UrlElicitation,
} from './calls/inputHandlers.js';
export type {
  AnsweredOutcome,
  AnsweredRequest,
  CallOptions,
  CallOutcome,
  CallProgress,
  CallStatus,
  Delivery,
  FailedOutcome,
  FailedRequest,
  RequestOptions,
  RequestOutcome,
  RequestStatus,
  StaleRouteOutcome,
  ToolResult,
} from './calls/outcome.js';
export type { CallFacts, CallPolicy } from './calls/policy.js';
export type { CredentialStore } from './host/auth/credentialStore.js';
export { createOAuthProvider, type LockableProvider } from './host/auth/oauthProvider.js';
export type { OAuthProviderOptions } from './host/auth/oauthProviderOptions.js';
export type {
  BearerAuth,
  ClientCredentialsAuth,
  CustomPeerConfig,
  HostLimits,
  HostOptions,
  HttpPeerConfig,
  PeerAuth,
  PeerConfig,
  PrivateKeyAuth,
  StdioPeerConfig,
} from './host/config.js';
export {
  type CallInput,
  type CreateHostOptions,
  callLogic,
  createHost,
  type HostActorRef,
  type HostMachine,
  hostLogic,
  hostOf,
} from './host/createHost.js';
export {
  AuthorizationError,
  CollisionError,
  ConfigurationError,
  type ConfigurationProblem,
  PeerageError,
  RequiredPeerError,
  UnknownPeerError,
} from './host/errors.js';
export type {
  AuthorizationResponse,
  Catalog,
  Host,
  HostEvents,
  Listed,
  ListOptions,
  PeerHandle,
  PeerReport,
  PeerStateName,
  ReasonCode,
  RecordEntry,
  StartReport,
  UnavailableReason,
} from './host/facade.js';
export type {
  HostContext,
  HostEmitted,
  HostEvent,
  HostInput,
  HostOutput,
  HostTag,
} from './host/hostMachine.js';
export { createRatchet, type Ratchet } from './host/ledger.js';
export type {
  CatalogStatus,
  HostStatus,
  LatencyStatus,
  PeerStatus,
  SubscriptionStatus,
} from './host/status.js';
export { breakerMachine } from './machines/breakerMachine.js';
export { catalogMachine } from './machines/catalogMachine.js';
export { createPeerMachine, peerMachine, peerSetup } from './machines/peerMachine.js';
export type {
  BreakerContext,
  BreakerEvent,
  BreakerInput,
  CatalogContext,
  CatalogEvent,
  CatalogInput,
  ListenInput,
  PeerContext,
  PeerEvent,
  PeerInput,
  PeerTag,
  ProbeInput,
  SubscriptionContext,
  SubscriptionEvent,
  SubscriptionFilter,
  SubscriptionInput,
} from './machines/ports.js';
export {
  createSubscriptionMachine,
  type SubscriptionState,
  subscriptionMachine,
  subscriptionStateOf,
} from './machines/subscriptionMachine.js';
export type {
  CompletionRequest,
  CompletionResult,
  PromptArgument,
  PromptDefinition,
  PromptResult,
  ResourceDefinition,
  ResourceResult,
  ResourceTemplateDefinition,
} from './protocol/definitions.js';
export type { CloseCause, UnreachableCause } from './protocol/exchange.js';
export type { JsonObject, JsonValue } from './protocol/jsonRpc.js';
export type { ListKind } from './protocol/lists.js';
export { type Era, LEGACY_REVISIONS, MODERN_REVISIONS } from './protocol/revisions.js';
export type { CatalogEntry, CollisionPolicy, Conflict, Lease, Quarantined, Route } from './registry/lease.js';
export { registryMachine } from './registry/registryMachine.js';
export { type Clock, systemClock } from './transports/clock.js';
export type {
  Exchange,
  OpenResult,
  StreamEnd,
  Transport,
  TransportEvents,
  TransportFactory,
  TransportFault,
} from './transports/transport.js';
