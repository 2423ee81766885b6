/** The checks of what is written once an era is selected, and of every message: N2, N9 to N11 and N14 to N20. */
import type { Check } from './wireCheck.js';
import type { Sight } from './wireOracle.js';
import { isRecord, keysWritten, revisionOf } from './wireReading.js';
import { type ConnectionState, eraOf, modernRevisionOf } from './wireState.js';

const when = (isWrong: boolean, message: string): string | null => (isWrong ? message : null);

const isNegotiation = ({ written }: Sight): boolean =>
  written.method === 'server/discover' || written.method === 'initialize';

/** Any message that needs an era. */
function sessionCheck(rule: string, name: string, judge: (sight: Sight) => string | null): Check {
  return { rule, name, judge: (sight) => (isNegotiation(sight) ? null : judge(sight)) };
}

/** A request in the modern dialect, the probe among them. */
function modernRequestCheck(rule: string, name: string, judge: (sight: Sight) => string | null): Check {
  const applies = ({ written, connection }: Sight): boolean =>
    written.kind === 'request' && written.method !== 'initialize' && connection.initialize === null;
  return { rule, name, judge: (sight) => (applies(sight) ? judge(sight) : null) };
}

const STAMP = ['protocolVersion', 'clientInfo', 'clientCapabilities'].map(
  (key) => `io.modelcontextprotocol/${key}`,
);

/** Why no probe of the connection selected modern, where one rule says so for all of them. */
function whyNotModern(connection: ConnectionState): string | null {
  const reasons = connection.probes.flatMap((probe) => probe.possible.map(ruleOf));
  const [first] = reasons;
  return first !== undefined && reasons.every((reason) => reason === first) ? first : null;
}

function ruleOf(judgement: ConnectionState['probes'][number]['possible'][number]): string {
  if (judgement.kind === 'ambiguous') return judgement.why === 'N5' ? 'N17' : judgement.why;
  if (judgement.kind === 'legacy-only') return 'N13';
  if (judgement.kind === 'refused' && judgement.rule === 'N13') return 'N13';
  return 'N17';
}

/** A message in the modern dialect without a valid `DiscoverResult`, told under the rule that made it none. */
function withoutModern(rule: string, name: string): Check {
  return sessionCheck(rule, name, ({ connection, written }) => {
    if (connection.initialize !== null || eraOf(connection) === 'modern') return null;
    const why = whyNotModern(connection) ?? 'N17';
    return when(why === rule, `${written.method ?? 'a response'} was written to a peer that is not modern`);
  });
}

export const MESSAGE_CHECKS: readonly Check[] = [
  modernRequestCheck('N2', 'requests use the highest mutual revision', (sight) => {
    const { connection, written } = sight;
    if (isNegotiation(sight)) return null;
    const agreed = connection.probes.map(modernRevisionOf).filter((revision) => revision !== null);
    const asked = revisionOf(written);
    return when(
      agreed.length > 0 && !agreed.includes(asked),
      `${asked}, where ${agreed.join(' or ')} was agreed`,
    );
  }),
  {
    rule: 'N9',
    name: 'probe and initialize are not cancelled on the wire',
    judge: ({ written, connection }) => {
      if (written.method !== 'notifications/cancelled') return null;
      const id = written.params['requestId'];
      const isOne = connection.probes.some((probe) => probe.id === id) || connection.initialize?.id === id;
      return when(isOne || !connection.calls.has(id as number), `a cancellation of ${JSON.stringify(id)}`);
    },
  },
  sessionCheck('N10', 'legacy takes a valid InitializeResult', ({ connection }) => {
    const { initialize } = connection;
    if (initialize === null || initialize.sawForeignResult) return null;
    return when(initialize.revision === null, 'nothing valid came in answer to initialize');
  }),
  sessionCheck('N20', 'an answer under another id does not prove legacy', ({ connection }) => {
    const { initialize } = connection;
    if (initialize === null || !initialize.sawForeignResult) return null;
    return when(initialize.revision === null, 'the InitializeResult has not the id of the request');
  }),
  sessionCheck('N11', 'initialized is the first message of a legacy session', ({ connection, written }) =>
    when(
      connection.initialize !== null &&
        connection.initializedSent === 0 &&
        written.method !== 'notifications/initialized',
      `${written.method ?? 'a response'} came first`,
    ),
  ),
  sessionCheck('N11', 'initialized is sent once', ({ connection, written }) =>
    when(
      written.method === 'notifications/initialized' && connection.initializedSent > 0,
      'it was sent before',
    ),
  ),
  sessionCheck('N11', 'initialized is for legacy peers', ({ connection, written }) =>
    when(
      written.method === 'notifications/initialized' && connection.initialize === null,
      'no initialize was sent on this connection',
    ),
  ),
  modernRequestCheck('N15', 'modern requests carry the stamp exactly', (sight) => {
    const { written, oracle } = sight;
    const keys = keysWritten(written.text, ['params', '_meta']);
    if (keys === null) return 'there is no _meta';
    for (const key of STAMP) {
      const count = keys.filter((one) => one === key).length;
      if (count !== 1) return `${key} stands there ${count} times`;
    }
    const meta = isRecord(written.params['_meta']) ? written.params['_meta'] : {};
    const info = JSON.stringify(meta['io.modelcontextprotocol/clientInfo']);
    if (info !== JSON.stringify(oracle.config.clientInfo)) return `clientInfo is ${info}`;
    const capabilities = JSON.stringify(meta['io.modelcontextprotocol/clientCapabilities']);
    if (capabilities !== '{}') return `clientCapabilities is ${capabilities}`;
    const revision = revisionOf(written);
    return when(
      !oracle.config.modernRevisions.includes(revision),
      `the revision ${revision} is not configured`,
    );
  }),
  modernRequestCheck('N15', 'headers say what the body says', ({ written, event, connection }) => {
    if (!connection.perRequestStreams) return null;
    const { headers } = event;
    if (headers?.['mcp-protocol-version'] !== revisionOf(written)) return 'mcp-protocol-version differs';
    return when(headers['mcp-method'] !== written.method, 'mcp-method differs');
  }),
  sessionCheck('N15', 'legacy requests carry nothing modern', ({ connection, written }) => {
    if (connection.initialize === null) return null;
    const keys = keysWritten(written.text, ['params', '_meta']) ?? [];
    const modern = keys.find((key) => STAMP.includes(key));
    return when(modern !== undefined, `it has ${modern}`);
  }),
  {
    rule: 'N16',
    name: 'ids are integers',
    judge: ({ written }) => {
      if (written.kind !== 'request') return null;
      const isWrittenSo = /"id":[1-9]\d{0,15}[,}]/.test(written.text);
      return when(!Number.isSafeInteger(written.id) || !isWrittenSo, `the id ${JSON.stringify(written.id)}`);
    },
  },
  {
    rule: 'N16',
    name: 'ids are never used again',
    judge: ({ written, oracle }) =>
      when(
        written.kind === 'request' && written.id !== undefined && oracle.ids.has(written.id),
        `the id ${JSON.stringify(written.id)}`,
      ),
  },
  withoutModern('N17', 'nothing is written to a peer without an era'),
  withoutModern('N19', 'a result that is no DiscoverResult does not prove modern'),
  withoutModern('N20', 'an answer under another id does not prove modern'),
  withoutModern('N13', 'a peer that names legacy revisions only is not modern'),
  {
    rule: 'N17',
    name: 'only messages are written',
    judge: ({ written }) =>
      when(written.kind === 'unreadable' || /[\r\n]/.test(written.text), 'a text that is no message'),
  },
  {
    rule: 'N17',
    name: 'nothing is written to a connection that ended',
    judge: ({ connection }) => when(connection.isClosed, 'it has ended'),
  },
  {
    rule: 'N18',
    name: 'a modern peer is never answered',
    judge: ({ written, connection }) =>
      when(written.kind === 'response' && eraOf(connection) !== 'legacy', 'a response'),
  },
  {
    rule: 'N18',
    name: 'a response answers a request of the server',
    judge: ({ written, connection }) =>
      when(
        written.kind === 'response' &&
          eraOf(connection) === 'legacy' &&
          !connection.serverRequests.includes(written.id ?? null),
        `nobody asked with the id ${JSON.stringify(written.id)}`,
      ),
  },
];
