/** The two exchanges of a negotiation, carried out for the chart by the owner of a peer. */
import type { PeerEvent, ProbeInput } from '../machines/ports.js';
import {
  type InitializeVerdict,
  judgeInitialize,
  judgeProbe,
  type ProbeVerdict,
} from '../protocol/evidence.js';
import type { Outcome } from '../protocol/exchange.js';
import type { JsonObject } from '../protocol/jsonRpc.js';
import { initializeMembers, legacyDialect } from '../protocol/legacy.js';
import { modernDialect } from '../protocol/modern.js';
import type { UnavailableReason } from '../protocol/reasons.js';
import { resultTypeIsAbsent, type ServerInfo } from '../protocol/results.js';
import { sanitizeText } from '../protocol/sanitize.js';
import type { Clock } from '../transports/clock.js';
import { Connection, type OpenOutcome } from '../transports/connection.js';
import type { Authorizing } from './auth/authorizing.js';
import type { ResolvedOptions } from './config.js';
import { type ExchangeScope, within } from './exchangeScope.js';
import type { Ledger } from './ledger.js';
import { type NegotiationRecord, recordEntry } from './negotiationRecord.js';

/** What a negotiation needs of the peer's owner. */
export interface NegotiatingPeer {
  readonly name: string;
  readonly options: { readonly limits: ResolvedOptions; readonly clock: Clock };
  readonly ledger: Ledger;
  readonly record: NegotiationRecord;
  /** Revisions refused with -32022 in this negotiation, in order. */
  readonly refused: string[];
  readonly connection: Connection | null;
  capabilities: JsonObject;
  /** What this client offers to servers. */
  readonly clientCapabilities: JsonObject;
  negotiationStartedAt: number;
  elapsedMs(): number;
  countFault(kind: 'absent-result-type'): void;
  readonly authorizing: Authorizing | null;
  /** Takes the peer's configured secrets out of a text. */
  redact(text: string): string;
  withoutSecrets(event: PeerEvent): PeerEvent;
  /** Opens a new connection in place of the one in use. */
  open(deadline: number, scope: ExchangeScope): Promise<OpenOutcome>;
  /** Tells the chart that the connection is gone: it may have ended while its last answer was being judged. */
  noticeLoss(): void;
  /** Whether calls in flight were left on the connection (N14); asked once. */
  takeDraining(): boolean;
}

/** Where an exchange stood when it was judged. */
interface Exchanged {
  readonly id: number | null;
  readonly outcome: Outcome;
}

/** Sends one probe (N1, N3, N4) and reports its verdict. */
export async function runProbe(
  owner: NegotiatingPeer,
  input: ProbeInput,
  exchange: ExchangeScope<PeerEvent>,
): Promise<void> {
  const { limits, clock } = owner.options;
  const deadline = clock.now() + limits.probeTimeoutMs;
  if (owner.ledger.probing()) {
    owner.negotiationStartedAt = clock.now();
    owner.record.begin();
    owner.refused.length = 0;
  }
  const dialect = modernDialect({
    revision: input.revision,
    clientInfo: limits.clientInfo,
    clientCapabilities: owner.clientCapabilities,
  });
  const connection = await connectionForProbe(owner, input, deadline, exchange);
  if (!exchange.isActive) return;
  const exchanged: Exchanged =
    connection instanceof Connection
      ? await settle(connection.probe(dialect, Math.max(1, deadline - clock.now())), owner.redact)
      : { id: null, outcome: connection };
  if (!exchange.isActive) return;
  const verdict = judgeProbe(exchanged.outcome, {
    modernRevisions: limits.modernRevisions,
    legacyRevisions: limits.legacyRevisions,
    asked: input.revision,
    refused: owner.refused,
    hasHeaders: owner.connection?.perRequestStreams === true,
    declaredCapabilities: owner.clientCapabilities,
    availableCapabilities: owner.clientCapabilities,
    sign: owner.ledger.signSeen,
    peer: owner.name,
  });
  if (verdict.type === 'discover.unsupportedVersion') owner.refused.push(input.revision);
  owner.ledger.judged(verdict.type);
  const sent = { method: 'server/discover', id: exchanged.id, revision: input.revision };
  owner.record.add(recordEntry(owner.elapsedMs(), sent, exchanged.outcome, verdict, owner.redact));
  if (resultTypeIsAbsent(exchanged.outcome) && verdict.type === 'discover.result') {
    owner.countFault('absent-result-type');
  }
  if (verdict.type === 'discover.result' && owner.connection !== null) {
    owner.capabilities = verdict.result.capabilities;
    await owner.connection.select(
      modernDialect({
        revision: verdict.revision,
        clientInfo: limits.clientInfo,
        clientCapabilities: owner.clientCapabilities,
      }),
    );
  }
  exchange.report(owner.withoutSecrets(probeEvent(owner, verdict)));
  owner.noticeLoss();
}

/** Sends `initialize`, if the ledger permits it in the tick of the write (N7 to N11), and reports its verdict. */
export async function runInitialize(
  owner: NegotiatingPeer,
  exchange: ExchangeScope<PeerEvent>,
): Promise<void> {
  const { limits, clock } = owner.options;
  const deadline = clock.now() + limits.legacyProbeTimeoutMs;
  const revision = limits.legacyRevisions.at(-1) ?? '';
  const exchanged = await initialize(owner, revision, deadline, exchange);
  // Modern evidence stops this exchange before its outcome is known; what was sent belongs in the record all the same.
  if (!exchange.isActive && exchanged.id === null) return;
  const verdict = judgeInitialize(exchanged.outcome, {
    legacyRevisions: limits.legacyRevisions,
    peer: owner.name,
    sign: owner.ledger.signSeen,
  });
  if (exchanged.outcome.kind === 'unauthorized') owner.authorizing?.seek(exchanged.outcome);
  const sent = { method: 'initialize', id: exchanged.id, revision };
  owner.record.add(recordEntry(owner.elapsedMs(), sent, exchanged.outcome, verdict, owner.redact));
  if (!exchange.isActive) return;
  if (verdict.type === 'initialize.result' && owner.connection !== null) {
    owner.capabilities = verdict.result.capabilities;
    // N11: alone, before anything else, also where each message has a socket of its own.
    await within(clock, deadline, owner.connection.select(legacyDialect({ revision: verdict.revision })));
  }
  exchange.report(owner.withoutSecrets(initializeEvent(verdict)));
  owner.noticeLoss();
}

async function initialize(
  owner: NegotiatingPeer,
  revision: string,
  deadline: number,
  exchange: ExchangeScope,
): Promise<Exchanged> {
  const { clock, limits } = owner.options;
  // Asked before a process is started for it; what counts is the answer in the tick of the write.
  if (owner.ledger.refusal() !== null) return { id: null, outcome: { kind: 'withheld', written: false } };
  const current = owner.connection;
  if (current?.isOpen !== true || current.agreed !== null) {
    // N9: many servers die of the probe. One that was modern until now gets a fresh connection as well.
    const opened = await owner.open(deadline, exchange);
    if (!opened.ok)
      return { id: null, outcome: { kind: 'unreachable', written: false, cause: opened.cause } };
  }
  const { connection } = owner;
  if (connection === null || !exchange.isActive)
    return { id: null, outcome: { kind: 'cancelled', written: false, detail: 'stopped' } };
  const members = initializeMembers({
    revision,
    clientInfo: limits.clientInfo,
    clientCapabilities: owner.clientCapabilities,
  });
  const permit = () => (owner.connection === connection ? owner.ledger.permit(connection) : null);
  const left = Math.max(1, deadline - clock.now());
  return settle(connection.initialize(legacyDialect({ revision }), members, permit, left), owner.redact);
}

/** Secrets are taken out of what a process wrote before anybody cuts it. */
async function settle(
  pending: { readonly id: number; readonly outcome: Promise<Outcome> },
  redact: (text: string) => string,
): Promise<Exchanged> {
  const outcome = await pending.outcome;
  if (outcome.kind !== 'closed') return { id: pending.id, outcome };
  const { cause } = outcome;
  const stderr = cause.stderr === undefined ? {} : { stderr: redact(cause.stderr) };
  return {
    id: pending.id,
    outcome: { ...outcome, cause: { ...cause, detail: redact(cause.detail), ...stderr } },
  };
}

/** The connection to probe on: the open one, unless it is legacy, spent or to be corrected; else a fresh one. */
async function connectionForProbe(
  owner: NegotiatingPeer,
  input: ProbeInput,
  deadline: number,
  exchange: ExchangeScope,
): Promise<Connection | Outcome> {
  const current = owner.connection;
  if (current?.isOpen === true && current.mayBeProbed && !input.correction) {
    // It goes on, so nothing is left behind on it.
    owner.takeDraining();
    return current;
  }
  // N14: calls in flight are not cut by a refused revision, as far as the deadline of the probe allows.
  if (current?.isOpen === true && !current.perRequestStreams && owner.takeDraining()) {
    const { clock } = owner.options;
    await within(clock, clock.now() + (deadline - clock.now()) / 2, current.whenIdle());
  }
  const opened = await owner.open(deadline, exchange);
  if (!opened.ok) return { kind: 'unreachable', written: false, cause: opened.cause };
  return owner.connection ?? { kind: 'cancelled', written: false, detail: 'stopped' };
}

function probeEvent(owner: NegotiatingPeer, verdict: ProbeVerdict): PeerEvent {
  switch (verdict.type) {
    case 'discover.result':
      return { type: verdict.type, revision: verdict.revision, server: shown(verdict.result.serverInfo) };
    case 'discover.unsupportedVersion':
      return { type: verdict.type, revision: verdict.revision };
    case 'discover.noSignal':
      return {
        type: verdict.type,
        reason: verdict.reason,
        terminal: verdict.terminal,
        retryAfterMs: verdict.retryAfterMs,
      };
    case 'discover.ambiguous':
    case 'discover.legacyOnly':
      return { type: verdict.type, reason: whyNotLegacy(owner) ?? verdict.reason };
    default:
      return { type: verdict.type, reason: verdict.reason };
  }
}

/** A server's word about itself, fit for a context and a screen. */
function shown(server: ServerInfo | undefined): ServerInfo | null {
  if (server === undefined) return null;
  return { name: sanitizeText(server.name, 200), version: sanitizeText(server.version, 100) };
}

/** Why the ledger would not permit `initialize`, where the allowlist is not what is missing. */
function whyNotLegacy(owner: NegotiatingPeer): UnavailableReason | null {
  switch (owner.ledger.isModern ? 'modern-evidence' : owner.ledger.refusal()) {
    case 'modern-evidence':
      return {
        code: 'modern-evidence',
        message: `${owner.name} gave no valid answer, but it has spoken the modern protocol before.`,
        fix: `If it was rolled back to a legacy server, call host.forget("${owner.name}") or restart the host, then retry.`,
      };
    case 'pin-changed':
      return {
        code: 'legacy-not-permitted',
        message: `What is behind the configuration of ${owner.name} changed since it was configured.`,
        fix: 'Check the command, then remove the peer and add it again.',
      };
    default:
      return null;
  }
}

function initializeEvent(verdict: InitializeVerdict): PeerEvent {
  switch (verdict.type) {
    case 'initialize.result':
      return { type: verdict.type, revision: verdict.revision, server: shown(verdict.result.serverInfo) };
    case 'initialize.rejected':
      return { type: verdict.type, reason: verdict.reason, curable: verdict.curable === true };
    case 'peer.modernEvidence':
      return { type: verdict.type };
    default:
      return { type: verdict.type, reason: verdict.reason };
  }
}
