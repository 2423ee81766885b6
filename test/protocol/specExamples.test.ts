/** Every official example of 2026-07-28 that a server may send to this client is read as what it is. */
import { describe, expect, it } from 'vitest';
import { readToolResult } from '../../src/calls/normalize.js';
import { createValidators } from '../../src/calls/validate.js';
import { parseCompletionResult, parsePromptResult, parseResourceResult } from '../../src/protocol/answers.js';
import { type JsonObject, type JsonValue, parseMessage } from '../../src/protocol/jsonRpc.js';
import {
  parseListPage,
  parsePrompt,
  parseResource,
  parseResourceTemplate,
  parseTool,
} from '../../src/protocol/listResults.js';
import type { ListKind } from '../../src/protocol/lists.js';
import { parseDiscoverResult } from '../../src/protocol/results.js';
import { specDir, specExamples } from '../support/specDir.js';

type Reader = (value: JsonValue) => void | Promise<void>;

const readsAs = (parse: (value: JsonValue) => { ok: boolean }): Reader => {
  return (value) => expect(parse(value)).toMatchObject({ ok: true });
};

const toolResult: Reader = (value) => {
  const read = readToolResult(value, 'modern');
  expect(['ok', 'tool-error']).toContain(read.kind);
  expect((read as { result: { content: unknown } }).result.content).toBe((value as JsonObject)['content']);
};

const inputRequired: Reader = (value) => {
  const read = readToolResult(value, 'modern');
  expect(read).toMatchObject({ kind: 'input-required', requestState: (value as JsonObject)['requestState'] });
};

/** As one of the requests in an `input_required` result, which is the only way in which it may come. */
const inputRequest: Reader = (value) => {
  inputRequired({ resultType: 'input_required', inputRequests: { asked: value } });
};

const contentBlock: Reader = (value) => toolResult({ resultType: 'complete', content: [value] });
const resourceContents: Reader = (value) => contentBlock({ type: 'resource', resource: value });

const notification: Reader = (value) => {
  expect(parseMessage(value)).toMatchObject({
    kind: 'notification',
    method: (value as JsonObject)['method'],
  });
};
/** Params without their envelope. */
const notificationParams: Reader = (value) => {
  const message = parseMessage({ jsonrpc: '2.0', method: 'notifications/any', params: value });
  expect(message).toEqual({ kind: 'notification', method: 'notifications/any', params: value });
};

/** Some examples are the error alone, some the whole message. */
const error: Reader = (value) => {
  const object = value as JsonObject;
  const message = object['jsonrpc'] === '2.0' ? object : { jsonrpc: '2.0', id: 1, error: object };
  expect(parseMessage(message)).toMatchObject({ kind: 'error', error: message['error'] });
};

const response = (result: Reader): Reader => {
  return async (value) => {
    const message = parseMessage(value);
    expect(message.kind).toBe('result');
    if (message.kind === 'result') await result(message.result);
  };
};
const anyResult: Reader = (value) => expect(value).toHaveProperty('resultType', 'complete');

const validators = createValidators();
const tool: Reader = async (value) => {
  readsAs(parseTool)(value);
  for (const name of ['inputSchema', 'outputSchema']) {
    const schema = (value as JsonObject)[name] as JsonObject | undefined;
    if (schema === undefined) continue;
    const checked = await validators.validate(JSON.stringify(schema), schema, {});
    if (!checked.ok) expect(checked.code).toBe('mismatch');
  }
};
const listPage = (kind: ListKind, item: Reader): Reader => {
  return async (value) => {
    const page = parseListPage(kind, value);
    expect(page).toMatchObject({ ok: true, value: { hasScope: true } });
    if (!page.ok) return;
    expect(page.value.items).not.toEqual([]);
    for (const each of page.value.items) await item(each);
  };
};
const toolsPage = listPage('tools', tool);
const promptsPage = listPage('prompts', readsAs(parsePrompt));
const resourcesPage = listPage('resources', readsAs(parseResource));
const templatesPage = listPage('resourceTemplates', readsAs(parseResourceTemplate));

const RECEIVED: Readonly<Record<string, Reader>> = {
  AudioContent: contentBlock,
  BlobResourceContents: resourceContents,
  CallToolResult: toolResult,
  CallToolResultResponse: response(toolResult),
  CancelledNotification: notification,
  CancelledNotificationParams: notificationParams,
  CompleteResult: readsAs(parseCompletionResult),
  CompleteResultResponse: response(readsAs(parseCompletionResult)),
  CreateMessageRequest: inputRequest,
  DiscoverResult: readsAs(parseDiscoverResult),
  DiscoverResultResponse: response(readsAs(parseDiscoverResult)),
  ElicitRequest: inputRequest,
  EmbeddedResource: contentBlock,
  GetPromptResult: readsAs(parsePromptResult),
  GetPromptResultResponse: response(readsAs(parsePromptResult)),
  HeaderMismatchError: error,
  ImageContent: contentBlock,
  InputRequests: (value) => inputRequired({ resultType: 'input_required', inputRequests: value }),
  InputRequiredResult: inputRequired,
  InternalError: error,
  InvalidParamsError: error,
  ListPromptsResult: promptsPage,
  ListPromptsResultResponse: response(promptsPage),
  ListResourceTemplatesResult: templatesPage,
  ListResourceTemplatesResultResponse: response(templatesPage),
  ListResourcesResult: resourcesPage,
  ListResourcesResultResponse: response(resourcesPage),
  ListRootsRequest: inputRequest,
  ListToolsResult: toolsPage,
  ListToolsResultResponse: response(toolsPage),
  LoggingMessageNotification: notification,
  LoggingMessageNotificationParams: notificationParams,
  MethodNotFoundError: error,
  MissingRequiredClientCapabilityError: error,
  ParseError: error,
  ProgressNotification: notification,
  ProgressNotificationParams: notificationParams,
  PromptListChangedNotification: notification,
  ReadResourceResult: readsAs(parseResourceResult),
  ReadResourceResultResponse: response(readsAs(parseResourceResult)),
  Resource: readsAs(parseResource),
  ResourceLink: contentBlock,
  ResourceListChangedNotification: notification,
  ResourceUpdatedNotification: notification,
  ResourceUpdatedNotificationParams: notificationParams,
  SubscriptionsAcknowledgedNotification: notification,
  SubscriptionsListenResult: anyResult,
  SubscriptionsListenResultResponse: response(anyResult),
  TextContent: contentBlock,
  TextResourceContents: resourceContents,
  Tool: tool,
  ToolListChangedNotification: notification,
  UnsupportedProtocolVersionError: error,
};

/** What a client sends, and parts that never come by themselves. */
const NOT_RECEIVED: ReadonlySet<string> = new Set([
  // sent by a client
  'CallToolRequest',
  'CallToolRequestParams',
  'ClientCapabilities',
  'CompleteRequest',
  'CompleteRequestParams',
  'CreateMessageResult',
  'DiscoverRequest',
  'ElicitResult',
  'GetPromptRequest',
  'GetPromptRequestParams',
  'InputResponses',
  'ListPromptsRequest',
  'ListResourceTemplatesRequest',
  'ListResourcesRequest',
  'ListRootsResult',
  'ListToolsRequest',
  'PaginatedRequestParams',
  'ReadResourceRequest',
  'Root',
  'SubscriptionsListenRequest',
  // parts of requests that arrive inside `inputRequests`, for a handler to read
  'BooleanSchema',
  'CreateMessageRequestParams',
  'ElicitRequestFormParams',
  'ElicitRequestURLParams',
  'ModelPreferences',
  'NumberSchema',
  'SamplingMessage',
  'StringSchema',
  'TitledMultiSelectEnumSchema',
  'TitledSingleSelectEnumSchema',
  'ToolResultContent',
  'ToolUseContent',
  'UntitledMultiSelectEnumSchema',
  'UntitledSingleSelectEnumSchema',
  // parts of results that this client hands on unread
  'ServerCapabilities',
]);

describe.skipIf(specDir === undefined)('official examples', () => {
  const examples = specExamples();

  it('are all known', () => {
    const unknown = examples.filter(({ type }) => !(type in RECEIVED) && !NOT_RECEIVED.has(type));
    expect(unknown.map(({ type }) => type)).toEqual([]);
    expect(examples.length).toBeGreaterThan(100);
  });

  it.each(examples.filter(({ type }) => type in RECEIVED))('$type: $file', async ({ type, value }) => {
    await RECEIVED[type]!(value as JsonValue);
  });
});
