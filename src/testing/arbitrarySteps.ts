/** Arbitraries for what is done about one message: when it comes, in which pieces, and what disturbs it. */
import * as fc from 'fast-check';
import type { JsonValue } from '../protocol/jsonRpc.js';
import {
  honestDiscoverResults,
  initializeResults,
  modernErrors,
  plainErrors,
  type Revisions,
  unaskedMessages,
  versionErrors,
} from './arbitraryMessages.js';
import type { HttpAnswer, Step } from './script.js';

export interface FarSideOptions {
  readonly revisions: Revisions;
  /** Deadline of a probe, so that answers come before, at and after it. The legacy probe's is taken to be alike. */
  readonly probeTimeoutMs: number;
  /** Longest message the client accepts, in bytes, for lines that are longer. */
  readonly maxMessageBytes: number;
}

/** The answer to the probe comes when `initialize` is under way, or later, alone or before a valid answer. */
export function lateProbeAnswers(options: FarSideOptions): fc.Arbitrary<Step[]> {
  const { revisions } = options;
  const payload = fc.oneof(
    honestDiscoverResults(revisions).map((result): JsonValue => ({ jsonrpc: '2.0', id: '$probe', result })),
    versionErrors(revisions).map((error): JsonValue => ({ jsonrpc: '2.0', id: '$probe', error })),
    plainErrors().map((error): JsonValue => ({ jsonrpc: '2.0', id: '$probe', error })),
  );
  return fc
    .tuple(payload, initializeResults(revisions), delays(options), delays(options), fc.boolean())
    .map(([late, result, lateMs, afterMs, isBoth]): Step[] => {
      const first: Step = { say: late, afterMs: lateMs, outside: true };
      return isBoth ? [first, { say: { jsonrpc: '2.0', id: '$id', result }, afterMs }] : [first];
    });
}

/** A message on its way: at once or late, whole or in pieces, once or twice, alone or with others before it. */
export function said(options: FarSideOptions, message: fc.Arbitrary<JsonValue>): fc.Arbitrary<Step[]> {
  const whole = fc.tuple(message, delays(options)).map(([say, afterMs]): Step[] => [{ say, afterMs }]);
  const pieces = fc
    .record({
      say: message,
      afterMs: delays(options),
      cut: fc.array(fc.nat({ max: 40 }), { maxLength: 4 }),
      lineEnd: fc.constantFrom<'\n' | '\r\n' | ''>('\n', '\r\n', '\r\n', ''),
    })
    .map((step): Step[] => [step]);
  const overHttp = fc
    .tuple(httpAnswers(message), delays(options))
    .map(([http, afterMs]): Step[] => [{ http, afterMs }]);
  const answered = fc
    .tuple(message, fc.constantFrom<'json' | 'sse'>('json', 'sse'))
    .map(([one, type]): Step[] => [{ http: { status: 200, type, body: [one] } }]);
  const twice = fc
    .tuple(whole, delays(options))
    .map(([steps, afterMs]): Step[] => [...steps, ...steps.map((step) => ({ ...step, afterMs }))]);
  const accompanied = fc.tuple(disturbances(options), whole).map(([before, steps]) => [...before, ...steps]);
  return fc.oneof(
    { weight: 5, arbitrary: whole },
    { weight: 2, arbitrary: answered },
    { weight: 2, arbitrary: pieces },
    { weight: 2, arbitrary: overHttp },
    { weight: 1, arbitrary: twice },
    { weight: 1, arbitrary: accompanied },
  );
}

/** Mostly at once; around the deadlines; long after them. */
function delays({ probeTimeoutMs }: FarSideOptions): fc.Arbitrary<number> {
  return fc.oneof(
    { weight: 8, arbitrary: fc.constant(0) },
    { weight: 2, arbitrary: fc.constantFrom(1, 7, probeTimeoutMs / 2) },
    { weight: 1, arbitrary: fc.constantFrom(probeTimeoutMs - 1, probeTimeoutMs, probeTimeoutMs + 1) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        1.5 * probeTimeoutMs,
        2 * probeTimeoutMs,
        2.5 * probeTimeoutMs,
        5 * probeTimeoutMs,
      ),
    },
  );
}

/** An HTTP answer of any status and type, with a message, another text, or nothing in it. */
export function httpAnswers(message: fc.Arbitrary<JsonValue>): fc.Arbitrary<HttpAnswer> {
  return fc
    .record({
      status: fc.oneof(
        { weight: 3, arbitrary: fc.constantFrom(200, 200, 202) },
        { weight: 3, arbitrary: fc.constantFrom(400, 404, 405, 406, 415, 422) },
        {
          weight: 3,
          arbitrary: fc.constantFrom(401, 403, 407, 408, 421, 425, 429, 301, 304, 307, 500, 502, 503),
        },
      ),
      type: fc.constantFrom<HttpAnswer['type'][]>('json', 'json', 'sse', 'html', 'text', 'none'),
      content: fc.oneof(
        { weight: 3, arbitrary: message.map((one): Partial<HttpAnswer> => ({ body: [one] })) },
        {
          weight: 1,
          arbitrary: fc.constantFrom<Partial<HttpAnswer>>({}, { text: 'Bad Request' }, { text: '{"cut' }),
        },
      ),
      redirected: fc.constantFrom(false, false, false, true),
      retryAfterMs: fc.constantFrom(undefined, undefined, 0, 100, 2 ** 40),
    })
    .map(({ content, retryAfterMs, ...rest }) => ({
      ...rest,
      ...content,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    }));
}

/** Ends: of the connection, of the answer stream, with or without a word before. */
export function ends(options: FarSideOptions): fc.Arbitrary<Step[]> {
  return fc
    .tuple(
      fc.oneof(
        fc
          .constantFrom<('exit' | 'end-of-output' | 'reset' | 'protocol')[]>(
            'exit',
            'end-of-output',
            'reset',
            'protocol',
          )
          .map((closes) => ({ closes })),
        fc.constantFrom<('complete' | 'broken')[]>('complete', 'broken').map((how) => ({ ends: how })),
      ),
      delays(options),
    )
    .map(([end, afterMs]): Step[] => [{ ...end, afterMs }]);
}

/** Anything that is no answer. */
export function disturbances(options: FarSideOptions): fc.Arbitrary<Step[]> {
  const { revisions } = options;
  return fc.oneof(
    {
      weight: 2,
      arbitrary: fc
        .tuple(unaskedMessages(), fc.boolean())
        .map(([say, outside]): Step[] => [{ say, outside }]),
    },
    { weight: 2, arbitrary: noise(options) },
    { weight: 2, arbitrary: lateProbeAnswers(options) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(modernErrors(revisions), fc.constantFrom<JsonValue>(null, '1', 99, '$id:text'))
        .map(([error, id]): Step[] => [{ say: { jsonrpc: '2.0', id, error }, outside: true }]),
    },
    {
      weight: 1,
      arbitrary: delays(options).map((afterMs): Step[] => [
        { pipe: 'hold' },
        { pipe: 'release', afterMs: afterMs + 1 },
      ]),
    },
    { weight: 1, arbitrary: fc.constant<Step[]>([]) },
  );
}

/** Bytes on a pipe that are no message: logs, other framings, invalid UTF-8, lines that are too long, blank ones. */
export function noise({ maxMessageBytes, revisions }: FarSideOptions): fc.Arbitrary<Step[]> {
  const error = JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32022, message: 'x', data: {} } });
  const result = JSON.stringify({ jsonrpc: '2.0', id: 1, result: { supportedVersions: revisions.modern } });
  const tooLong: Step[] = [
    { bytes: Buffer.from('{').toString('base64'), repeat: maxMessageBytes + 5 },
    { bytes: Buffer.from('\n').toString('base64') },
  ];
  const bytes = fc.oneof(
    fc.constantFrom(
      Buffer.from('starting server\n'),
      Buffer.from('\u001b[2m12:00:01\u001b[0m ready\n\n\r\n'),
      Buffer.from('Content-Length: 20\r\n\r\n'),
      Buffer.from('{"jsonrpc":"2.0","id":1,"resul'),
      Buffer.from([0xff, 0xfe, 0x0a]),
      Buffer.concat([Buffer.from('{"text":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}\n')]),
      Buffer.from(`\ufeff${error}\n`),
      Buffer.from(`log: ${result}\n`),
      Buffer.from('null\n[]\n[1]\n"x"\n{}\n'),
    ),
    fc.uint8Array({ maxLength: 20 }).map((some) => Buffer.from(some)),
  );
  return fc.oneof(
    { weight: 9, arbitrary: bytes.map((one): Step[] => [{ bytes: one.toString('base64') }]) },
    { weight: 1, arbitrary: fc.constant(tooLong) },
  );
}
