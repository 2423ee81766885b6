/**
 * Replays a recorded wire and keeps what follows from it: which era each connection has, what each probe came to,
 * which pins have given modern evidence. Where time decides and two things happened in one millisecond, both readings
 * are kept: `possible` holds every judgement that may be the right one.
 */
import {
  type Asked,
  type Judgement,
  judgeAnswer,
  judgeEnd,
  judgeStray,
  type OracleConfig,
} from './wireJudge.js';
import { deadlinesOf, placesOf } from './wirePlaces.js';
import {
  answerFor,
  initializedRevision,
  isLooselyModern,
  isRecord,
  type Json,
  readJson,
  readWritten,
  revisionOf,
  type Written,
} from './wireReading.js';
import { type ConnectionState, eraOf, isPending, type Life, type Probe, settleProbe } from './wireState.js';
import type { WireEvent } from './wireTrace.js';

type Kind<K extends WireEvent['kind']> = Extract<WireEvent, { readonly kind: K }>;

/** The state right before `written` is written. */
export interface Sight {
  readonly oracle: Oracle;
  readonly event: Kind<'out'>;
  readonly written: Written;
  readonly connection: ConnectionState;
  readonly life: Life;
}

export class Oracle {
  readonly config: OracleConfig;
  readonly lives = new Map<number, Life>();
  readonly connections = new Map<number, ConnectionState>();
  /** Pins that gave modern evidence, with the text. */
  readonly signed = new Map<string, string>();
  readonly ids = new Set<Json>();

  constructor(config: OracleConfig) {
    this.config = config;
  }

  get preferredRevision(): string {
    return this.config.modernRevisions.at(-1) ?? '';
  }

  /** The state before an `out` event, for the checks; null where the connection is unknown. */
  sight(event: Kind<'out'>): Sight | null {
    const connection = this.connections.get(event.connection);
    if (connection === undefined) return null;
    return { oracle: this, event, written: readWritten(event.text), connection, life: connection.life };
  }

  apply(event: WireEvent): void {
    if (event.kind === 'command') {
      this.command(event);
      return;
    }
    if (event.kind === 'open') {
      this.open(event);
      return;
    }
    const connection = this.connections.get(event.connection);
    if (connection === undefined) return;
    switch (event.kind) {
      case 'open-failed':
        connection.openFailed = true;
        connection.life.openFailed = true;
        break;
      case 'out':
        this.write(connection, event);
        break;
      case 'in':
        this.hear(connection, event, readJson(event.text));
        break;
      case 'overheard':
        if (isPending(connection) || !connection.perRequestStreams) this.scan(connection, event.text);
        break;
      case 'redirected':
        for (const probe of connection.probes) if (probe.id === event.exchange) probe.redirected = true;
        break;
      case 'end':
        this.end(connection, event);
        break;
      case 'close':
        connection.closeAskedAtMs ??= event.atMs;
        break;
      case 'closed':
        settleProbe(connection.probes.at(-1), event.atMs, [
          event.cause === 'host' ? { kind: 'broken-off' } : { kind: 'ambiguous', why: 'N5' },
        ]);
        if (connection.initialize !== null) connection.initialize.isAnswered = true;
        connection.isClosed = true;
        break;
      case 'released':
        connection.releasedAtMs = event.atMs;
        break;
      default:
        break;
    }
  }

  private command(event: Kind<'command'>): void {
    if (event.command === 'forget' && event.pin !== null) this.signed.delete(event.pin);
    if (event.command !== 'retry' && event.command !== 'authorize') return;
    for (const life of this.lives.values()) if (life.peer === event.peer) life.isCommanded = true;
  }

  private open(event: Kind<'open'>): void {
    const { peer, pin, allowLegacy } = event;
    const life = this.lives.get(event.life) ?? {
      peer,
      pin,
      allowLegacy,
      predecessor: [...this.connections.values()].findLast((one) => one.life.peer === peer),
      connections: [],
      negotiation: null,
      isCommanded: false,
      openFailed: false,
    };
    this.lives.set(event.life, life);
    const connection: ConnectionState = {
      number: event.connection,
      life,
      perRequestStreams: event.perRequestStreams,
      openedAtMs: event.atMs,
      written: [],
      probes: [],
      initialize: null,
      initializedSent: 0,
      calls: new Set(),
      serverRequests: [],
      refusedCalls: [],
      renegotiations: 0,
      openFailed: false,
      lastHeardAtMs: event.atMs,
      closeAskedAtMs: null,
      isClosed: false,
      releasedAtMs: null,
      provedModern: false,
      provedModernWhileLegacy: false,
    };
    life.connections.push(connection);
    this.connections.set(event.connection, connection);
  }

  private write(connection: ConnectionState, event: Kind<'out'>): void {
    const written = readWritten(event.text);
    const { id, method } = written;
    connection.written.push(written);
    if (written.kind === 'request') this.ids.add(id as Json);
    if (written.kind === 'response') {
      const at = connection.serverRequests.indexOf(id as Json);
      if (at >= 0) connection.serverRequests.splice(at, 1);
    } else if (method === 'server/discover' && typeof id === 'number') {
      this.writeProbe(connection, event, id, revisionOf(written));
    } else if (method === 'initialize' && typeof id === 'number') {
      connection.initialize = {
        id,
        atMs: event.atMs,
        revision: null,
        isAnswered: false,
        wasUnreached: false,
        sawForeignResult: false,
      };
      const { negotiation } = connection.life;
      if (negotiation !== null) negotiation.initializeSent += 1;
    } else if (method === 'notifications/initialized') {
      connection.initializedSent += 1;
    } else if (typeof id === 'number') {
      connection.calls.add(id);
    }
  }

  private writeProbe(connection: ConnectionState, event: Kind<'out'>, id: number, revision: string): void {
    const { life } = connection;
    const places = placesOf(connection, revision);
    const [earliestDeadlineMs, latestDeadlineMs] = deadlinesOf(connection, event.atMs, this.config);
    if (eraOf(connection) === 'modern') connection.renegotiations += 1;
    if (life.negotiation === null || places.some((place) => place.follows === null)) {
      life.negotiation = { probes: [], initializeSent: 0 };
    }
    const probe: Probe = {
      id,
      revision,
      connection,
      places,
      earliestDeadlineMs,
      latestDeadlineMs,
      possible: [],
      isSettled: false,
      redirected: false,
    };
    life.negotiation.probes.push(probe);
    connection.probes.push(probe);
    life.isCommanded = false;
    life.openFailed = false;
  }

  private hear(connection: ConnectionState, event: Kind<'in'>, value: Json | undefined): void {
    this.scan(connection, event.text, event.exchange);
    if (isRecord(value) && typeof value['method'] === 'string' && 'id' in value) {
      connection.serverRequests.push(value['id'] as Json);
    }
    this.hearForProbe(connection, event, value);
    this.hearForInitialize(connection, event, value);
    for (const call of connection.calls) {
      const answer = answerFor(value, call);
      if (answer?.kind === 'error' && answer.code === -32022) connection.refusedCalls.push(event.atMs);
    }
    connection.lastHeardAtMs = event.atMs;
  }

  private hearForProbe(connection: ConnectionState, event: Kind<'in'>, value: Json | undefined): void {
    const probe = connection.probes.at(-1);
    if (probe === undefined) return;
    const { exchange } = event;
    if (connection.perRequestStreams && exchange !== null && exchange !== probe.id) return;
    const answer = answerFor(value, probe.id);
    if (answer === null && exchange !== probe.id) return;
    const judgements = probe.places.map((place): Judgement => {
      const asked: Asked = {
        revision: probe.revision,
        refused: place.refused,
        isCorrectable: connection.perRequestStreams && !place.isCorrected,
        redirected: probe.redirected,
      };
      return answer === null ? judgeStray(value, asked) : judgeAnswer(answer, asked, this.config);
    });
    settleProbe(probe, event.atMs, judgements, answer !== null && answer.kind !== 'unclear');
  }

  private hearForInitialize(connection: ConnectionState, event: Kind<'in'>, value: Json | undefined): void {
    const { initialize } = connection;
    if (initialize === null) return;
    if (connection.perRequestStreams && event.exchange !== null && event.exchange !== initialize.id) return;
    const answer = answerFor(value, initialize.id);
    if (answer === null) {
      const result = isRecord(value) ? value['result'] : undefined;
      if (result !== undefined && initializedRevision(result, this.config.legacyRevisions) !== null) {
        initialize.sawForeignResult = true;
      }
      return;
    }
    if (answer.kind === 'unclear') return;
    const { legacyProbeTimeoutMs, toleranceMs = 0 } = this.config;
    const isInTime = event.atMs <= initialize.atMs + legacyProbeTimeoutMs + toleranceMs;
    if (answer.kind === 'result' && isInTime && !initialize.isAnswered) {
      initialize.revision = initializedRevision(answer.result, this.config.legacyRevisions);
    }
    initialize.isAnswered = true;
  }

  private end(connection: ConnectionState, event: Kind<'end'>): void {
    const probe = connection.probes.at(-1);
    if (probe !== undefined && probe.id === event.exchange && event.end !== 'withheld') {
      const redirected = event.redirected || probe.redirected;
      const judgement = judgeEnd(event.end, redirected, connection.closeAskedAtMs !== null);
      // What came in the stream and is no answer counts once the stream has ended.
      const isRead = probe.possible.length > 0 && judgement.kind === 'ambiguous';
      if (isRead) probe.isSettled = event.atMs < probe.earliestDeadlineMs;
      else settleProbe(probe, event.atMs, [judgement]);
    }
    const { initialize } = connection;
    if (initialize === null || initialize.id !== event.exchange) return;
    initialize.wasUnreached ||= event.end === 'unreachable' && !initialize.isAnswered;
    initialize.isAnswered = true;
  }

  /** N21: looked for in every text that may answer a negotiation request, before it is correlated. */
  private scan(connection: ConnectionState, text: string, exchange: number | null = null): void {
    const negotiating = isPending(connection);
    const isCallStream = connection.perRequestStreams && exchange !== null && connection.calls.has(exchange);
    if (!negotiating && (connection.perRequestStreams || isCallStream)) return;
    const isFound = isLooselyModern(readJson(text), (message) => {
      if (negotiating && connection.calls.size === 0) return true;
      return !('method' in message) && !connection.calls.has(message['id'] as number);
    });
    if (!isFound) return;
    this.signed.set(connection.life.pin, text);
    connection.provedModern = true;
    if (eraOf(connection) === 'legacy' && connection.initializedSent > 0)
      connection.provedModernWhileLegacy = true;
  }
}
