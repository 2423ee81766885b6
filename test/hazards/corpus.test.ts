/** What real servers answered to a modern probe, replayed: none is misjudged, and an allowlist loses none. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';
import type { HttpAnswer, LifeScript, Script, Step } from '../../src/testing/script.js';
import { end, legacySession, negotiate, on, result, TOOLS } from './negotiated.js';

interface Exchange {
  readonly kind: 'result' | 'error' | 'exit' | 'silence' | 'non-rpc-body' | null;
  readonly idEchoed?: string;
  readonly protocolVersion?: string;
  readonly raw?: string;
  readonly status?: number | null;
  readonly contentType?: string | null;
  readonly code?: number | null;
  readonly message?: string;
}

interface Row {
  readonly name: string;
  readonly version: string;
  readonly transport: 'stdio' | 'http';
  readonly era: 'legacy' | 'modern' | 'dual' | 'unusable';
  readonly probe: Exchange;
  readonly initializeAfterProbe?: Exchange;
  readonly initializeFresh?: Exchange;
}

const rows = readRows();
const usable = rows.filter(({ era }) => era !== 'unusable');

describe.skipIf(rows.length === 0)('recorded answers', () => {
  test.each(usable)('$transport: $name $version, $era', async (row) => {
    const expected = row.era === 'legacy' ? 'legacy' : 'modern';
    const overHttp = row.transport === 'http';
    const trusted = await negotiate(scriptOf(row), { overHttp, allowLegacy: true });
    expect(trusted.report).toMatchObject({ state: expected, era: expected, tools: 1 });
    expect(trusted.report.initializeSent).toBe(expected === 'legacy' ? 1 : 0);
    await end(trusted);

    const stranger = await negotiate(scriptOf(row), { overHttp });
    expect(stranger.report.state).toBe(expected === 'modern' ? 'modern' : 'unavailable');
    expect(stranger.written).not.toContain('initialize');
    await end(stranger);
  });

  test.each(rows.filter(({ era }) => era === 'unusable'))(
    '$transport: $name $version is unusable',
    async (row) => {
      for (const allowLegacy of [true, false]) {
        const negotiated = await negotiate(scriptOf(row), {
          overHttp: row.transport === 'http',
          allowLegacy,
        });
        expect(negotiated.report.state).toBe('unavailable');
        if (!allowLegacy) expect(negotiated.written).not.toContain('initialize');
        await end(negotiated);
      }
    },
  );

  test('in sum', () => {
    const stdio = usable.filter(({ transport }) => transport === 'stdio');
    expect(stdio.length).toBeGreaterThan(50);
    expect(stdio.filter(({ era }) => era !== 'legacy').length).toBeGreaterThan(5);
  });
});

/** From the folder beside the official schemas; none, with a notice, where it is absent. */
function readRows(): Row[] {
  const repository = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
  const specDir = process.env['PEERAGE_SPEC_DIR'] ?? join(repository, '../shared/spec');
  const file = join(specDir, '../corpus.jsonl');
  if (!existsSync(file)) {
    console.info(`skipped: no recorded answers in ${file} (set PEERAGE_SPEC_DIR)`);
    return [];
  }
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  // A row without a status is one whose server could not be reached over HTTP when it was recorded.
  return lines
    .map((line) => JSON.parse(line) as Row)
    .filter(({ transport, probe }) => transport === 'stdio' || typeof probe.status === 'number');
}

function scriptOf(row: Row): Script {
  const probe = on('server/discover', ...answerOf(row));
  const session = sessionOf(row);
  const first: LifeScript = { reactions: [probe, ...session] };
  // A server that died of the probe accepts initialize in a fresh process, if it did so when it was recorded.
  const fresh: LifeScript = {
    reactions: row.initializeFresh?.kind === 'exit' ? [on('*', { closes: 'exit' })] : session,
  };
  return { lives: [first, fresh] };
}

function sessionOf(row: Row) {
  const protocolVersion = row.initializeFresh?.protocolVersion ?? row.initializeAfterProbe?.protocolVersion;
  if (row.era === 'unusable') return [];
  if (row.era !== 'legacy') return [on('tools/list', result(TOOLS))];
  if (protocolVersion === undefined) return legacySession;
  const serverInfo = { name: row.name, version: row.version };
  return [
    on('initialize', result({ protocolVersion, capabilities: { tools: {} }, serverInfo })),
    on('tools/list', result(TOOLS)),
  ];
}

function answerOf({ transport, probe }: Row): Step[] {
  if (transport === 'http') return [{ http: httpAnswerOf(probe) }];
  if (probe.kind === 'exit') return [{ closes: 'exit' }];
  if (probe.kind === 'silence') return [];
  return [{ say: messageOf(probe) }];
}

function httpAnswerOf(probe: Exchange): HttpAnswer {
  const { status, contentType, kind, raw = '' } = probe;
  const type = contentType?.startsWith('application/json')
    ? 'json'
    : contentType?.startsWith('text/event-stream')
      ? 'sse'
      : contentType === null
        ? 'none'
        : 'text';
  const base = { status: status as number, type } as const;
  if (kind === 'non-rpc-body') return { ...base, text: raw };
  const body = type === 'sse' ? (/^data: (.*)$/m.exec(raw)?.[1] ?? '') : raw;
  return { ...base, body: [messageOf({ ...probe, raw: body })] };
}

/** The recorded message, its id in the place of the one that was used then. */
function messageOf(probe: Exchange): JsonValue {
  const message = readMessage(probe);
  const isExact = probe.idEchoed === 'exact' || message['id'] === 'disc-1';
  return isExact ? { ...message, id: '$id' } : message;
}

/** Long answers were cut after 400 bytes when they were recorded: of those, what counts is put together again. */
function readMessage({ raw = '', code, message }: Exchange): Record<string, JsonValue> {
  try {
    return JSON.parse(raw) as Record<string, JsonValue>;
  } catch {
    const base = { jsonrpc: '2.0', id: 'disc-1' };
    const versions = /"supportedVersions":(\[[^\]]*\])/.exec(raw)?.[1];
    if (versions !== undefined) {
      return {
        ...base,
        result: { supportedVersions: JSON.parse(versions) as JsonValue, capabilities: { tools: {} } },
      };
    }
    if (typeof code !== 'number') throw new Error(`a recorded answer that cannot be read: ${raw}`);
    return { ...base, error: { code, message: message ?? '' } };
  }
}
