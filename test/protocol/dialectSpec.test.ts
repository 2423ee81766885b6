/** What is written, against the official schemas of each revision. */
import * as core from '@modelcontextprotocol/core';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import type { Dialect } from '../../src/protocol/dialect.js';
import { initializeMembers, legacyDialect } from '../../src/protocol/legacy.js';
import { modernDialect } from '../../src/protocol/modern.js';
import { LEGACY_REVISIONS } from '../../src/protocol/revisions.js';
import { specDir, specSchema } from '../support/specDir.js';

const clientInfo = { name: 'peerage', version: '0.1.0', title: 'peerage' };
const clientCapabilities = { elicitation: {}, roots: {} };
const meta = { progressToken: 5, 'com.example/trace': 'x' };

interface Written {
  /** Name of the type in the official schema. */
  readonly type: string;
  readonly text: string;
  readonly zod?: { safeParse(value: unknown): { success: boolean; error?: unknown } };
}

function requests(dialect: Dialect): Written[] {
  const list = { type: 'ListToolsRequest', zod: core.ListToolsRequestSchema };
  const call = { type: 'CallToolRequest', zod: core.CallToolRequestSchema };
  return [
    { ...list, text: dialect.request(2, 'tools/list', '') },
    { ...list, text: dialect.request(3, 'tools/list', '"cursor":"eyJ"', meta) },
    { ...list, text: dialect.request(4, 'tools/list', '"cursor":""') },
    { ...call, text: dialect.request(5, 'tools/call', '"name":"echo","arguments":{"text":"hi"}', meta) },
    { ...call, text: dialect.request(6, 'tools/call', '"name":"now"') },
    {
      type: 'CancelledNotification',
      zod: core.CancelledNotificationSchema,
      text: dialect.cancel(5, 'deadline'),
    },
  ];
}

function legacyMessages(revision: string): Written[] {
  const dialect = legacyDialect({ revision });
  const members = initializeMembers({ revision, clientInfo, clientCapabilities });
  const responseType = revision === '2025-11-25' ? 'JSONRPCResultResponse' : 'JSONRPCResponse';
  const errorType = revision === '2025-11-25' ? 'JSONRPCErrorResponse' : 'JSONRPCError';
  const initialize = { type: 'InitializeRequest', zod: core.InitializeRequestSchema };
  return [
    ...requests(dialect),
    { ...initialize, text: dialect.request(1, 'initialize', members, meta) },
    {
      type: 'InitializedNotification',
      zod: core.InitializedNotificationSchema,
      text: dialect.notification('notifications/initialized', ''),
    },
    { type: 'PingRequest', zod: core.PingRequestSchema, text: dialect.request(9, 'ping', '') },
    { type: responseType, zod: core.JSONRPCResultResponseSchema, text: dialect.response('srv-1', {}) },
    { type: responseType, text: dialect.response(0, { roots: [{ uri: 'file:///tmp' }] }) },
    {
      type: errorType,
      zod: core.JSONRPCErrorResponseSchema,
      text: dialect.errorResponse(7, -32601, 'Method not found'),
    },
  ];
}

function modernMessages(): Written[] {
  const dialect = modernDialect({ revision: '2026-07-28', clientInfo, clientCapabilities });
  const discover = { type: 'DiscoverRequest', zod: core.DiscoverRequestSchema };
  return [
    ...requests(dialect),
    { ...discover, text: dialect.request(1, 'server/discover', '') },
    { ...discover, text: dialect.request(2, 'server/discover', '', meta) },
    {
      type: 'CallToolRequest',
      text: dialect.request(
        3,
        'tools/call',
        '"name":"x","inputResponses":{"a":{"action":"decline"}},"requestState":"s"',
      ),
    },
  ];
}

describe.each([
  ...LEGACY_REVISIONS.map((revision) => ({ revision, messages: legacyMessages(revision) })),
  { revision: '2026-07-28', messages: modernMessages() },
])('messages of $revision', ({ revision, messages }) => {
  it.skipIf(specDir === undefined)('fit the official JSON Schema', () => {
    const schema = specSchema(revision);
    const definitions = '$defs' in schema ? '$defs' : 'definitions';
    const options = { strict: false, validateFormats: false, logger: false } as const;
    const ajv = definitions === '$defs' ? new Ajv2020(options) : new Ajv(options);
    ajv.addSchema(schema, 'spec');
    for (const { type, text } of messages) {
      const validate = ajv.getSchema(`spec#/${definitions}/${type}`);
      expect(validate, type).toBeTypeOf('function');
      validate!(JSON.parse(text));
      expect(validate!.errors ?? [], `${type}: ${text}`).toEqual([]);
    }
  });

  it('fit the schemas of the official package', () => {
    for (const { type, text, zod } of messages) {
      const message = JSON.parse(text) as unknown;
      expect(core.JSONRPCMessageSchema.safeParse(message).success, `${type}: ${text}`).toBe(true);
      const parsed = zod?.safeParse(message);
      expect(parsed?.error, `${type}: ${text}`).toBeUndefined();
    }
  });
});
