/** Only what has a handler is declared, in words that every revision's schema knows. */
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, test } from 'vitest';
import { capabilitiesOf } from '../../src/calls/inputCapabilities.js';
import type { InputHandlers } from '../../src/calls/inputHandlers.js';
import { specDir, specSchema } from '../support/specDir.js';

const accept = () => ({ action: 'accept' }) as const;
const sample = () => ({});
const listRoots = () => [];

const CASES: [what: string, handlers: InputHandlers, declared: object][] = [
  ['nothing', {}, {}],
  ['forms', { elicitForm: accept }, { elicitation: { form: {} } }],
  ['pages', { elicitUrl: accept }, { elicitation: { url: {} } }],
  ['forms and pages', { elicitForm: accept, elicitUrl: accept }, { elicitation: { form: {}, url: {} } }],
  ['sampling', { sample }, { sampling: {} }],
  ['sampling without extras', { sample, sampling: { tools: false } }, { sampling: {} }],
  ['sampling with tools', { sample, sampling: { tools: true } }, { sampling: { tools: {} } }],
  ['sampling with context', { sample, sampling: { context: true } }, { sampling: { context: {} } }],
  ['extras of nothing', { sampling: { tools: true, context: true } }, {}],
  ['roots', { listRoots }, { roots: {} }],
  [
    'all of it',
    { elicitForm: accept, elicitUrl: accept, sample, sampling: { tools: true, context: true }, listRoots },
    { elicitation: { form: {}, url: {} }, sampling: { tools: {}, context: {} }, roots: {} },
  ],
];

test.each(CASES)('%s', (_what, handlers, declared) => {
  expect(capabilitiesOf(handlers)).toEqual(declared);
});

describe.skipIf(specDir === undefined)('the official schemas', () => {
  test.each(['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'])(
    'of %s accept it',
    (revision) => {
      const schema = specSchema(revision);
      const isOld = schema['definitions'] !== undefined;
      const ajv = isOld
        ? new Ajv({ strict: false, formats: { byte: true, uri: true } })
        : new Ajv2020({ strict: false, formats: { byte: true, uri: true } });
      ajv.addSchema(schema, 'mcp');
      const check = ajv.getSchema(`mcp#/${isOld ? 'definitions' : '$defs'}/ClientCapabilities`)!;
      for (const [, handlers] of CASES) {
        expect(check(capabilitiesOf(handlers)), JSON.stringify(check.errors)).toBe(true);
      }
    },
  );
});
