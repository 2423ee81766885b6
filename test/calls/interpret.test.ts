import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { interpretOutcome, type NoResultOutcome } from '../../src/calls/interpret.js';
import type { CloseCause, UnreachableCause } from '../../src/protocol/exchange.js';

const sent = { written: true } as const;
const unsent = { written: false } as const;
const exit: CloseCause = { kind: 'exit', detail: 'the process ended with code 1', exitCode: 1 };
const unreachable = (kind: UnreachableCause['kind'], status?: number, more: Partial<UnreachableCause> = {}) =>
  ({
    kind: 'unreachable',
    cause: {
      kind,
      detail: 'what happened',
      terminal: false,
      ...(status === undefined ? {} : { status }),
      ...more,
    },
  }) as const;
const error = (code: number, message: string, data?: number) =>
  ({
    kind: 'error',
    correlated: true,
    error: data === undefined ? { code, message } : { code, message, data },
  }) as const;

/** The whole mapping. Printed as a table by `-t table --reporter=verbose`. */
const TABLE: readonly (readonly [NoResultOutcome, status: string, delivery: string])[] = [
  [{ ...error(-32602, 'bad arguments'), ...sent }, 'protocol-error', 'answered'],
  [{ ...error(-32601, 'no such method'), ...sent }, 'protocol-error', 'answered'],
  [{ ...error(-32020, 'headers'), ...sent }, 'protocol-error', 'answered'],
  [{ ...error(-32021, 'capability'), ...sent }, 'protocol-error', 'answered'],
  [{ ...error(-32022, 'version'), ...sent }, 'protocol-error', 'answered'],
  [{ ...error(0, ''), ...sent }, 'protocol-error', 'answered'],
  [{ ...error(-32000, 'late'), correlated: false, ...sent }, 'protocol-error', 'answered'],
  [{ kind: 'malformed', detail: 'a JSON string', status: 200, ...sent }, 'protocol-error', 'answered'],
  [{ kind: 'malformed', detail: 'a JSON-RPC batch array', ...sent }, 'protocol-error', 'answered'],
  [{ kind: 'malformed', detail: 'no JSON-RPC', status: 404, ...sent }, 'unavailable', 'unknown'],
  [{ kind: 'malformed', detail: 'no JSON-RPC', status: 405, ...sent }, 'unavailable', 'unknown'],
  [{ kind: 'malformed', detail: 'no JSON-RPC', status: 410, ...sent }, 'unavailable', 'unknown'],
  [{ kind: 'malformed', detail: 'no JSON-RPC', status: 409, ...sent }, 'protocol-error', 'answered'],
  [{ kind: 'timeout', timeoutMs: 60_000, ...sent }, 'timeout', 'unknown'],
  [{ kind: 'timeout', timeoutMs: 60_000, ...unsent }, 'timeout', 'not-sent'],
  [{ kind: 'closed', cause: exit, ...sent }, 'lost', 'unknown'],
  [{ kind: 'closed', cause: exit, ...unsent }, 'unavailable', 'not-sent'],
  [{ kind: 'closed', cause: { kind: 'host', detail: '' }, ...sent }, 'lost', 'unknown'],
  [{ kind: 'cancelled', detail: 'the caller aborted', ...sent }, 'cancelled', 'unknown'],
  [{ kind: 'cancelled', detail: 'the caller aborted', ...unsent }, 'cancelled', 'not-sent'],
  [{ kind: 'unauthorized', status: 401, challenge: null, ...sent }, 'unavailable', 'answered'],
  [{ kind: 'unauthorized', status: 403, challenge: null, ...sent }, 'unavailable', 'answered'],
  [{ ...unreachable('spawn-failed', undefined, { terminal: true }), ...unsent }, 'unavailable', 'not-sent'],
  [{ ...unreachable('spawn-failed'), ...sent }, 'lost', 'unknown'],
  [{ ...unreachable('connect-failed'), ...unsent }, 'unavailable', 'not-sent'],
  [{ ...unreachable('connect-failed'), ...sent }, 'lost', 'unknown'],
  [{ ...unreachable('http-status', 500), ...sent }, 'lost', 'unknown'],
  [{ ...unreachable('http-status', 502), ...sent }, 'lost', 'unknown'],
  [{ ...unreachable('http-status', 504), ...sent }, 'lost', 'unknown'],
  [{ ...unreachable('http-status', 503, { retryAfterMs: 1_500 }), ...sent }, 'unavailable', 'unknown'],
  [{ ...unreachable('http-status', 429), ...sent }, 'unavailable', 'unknown'],
  [{ ...unreachable('http-status', 408), ...sent }, 'unavailable', 'unknown'],
  [{ ...unreachable('http-status'), ...sent }, 'unavailable', 'unknown'],
  [{ ...unreachable('http-status', 503, { retryAfterMs: 1_500 }), ...unsent }, 'unavailable', 'not-sent'],
  [{ ...unreachable('redirected', 302), ...sent }, 'unavailable', 'unknown'],
  [{ ...unreachable('html', 200), ...sent }, 'unavailable', 'unknown'],
  [{ kind: 'session-lost', ...sent }, 'unavailable', 'unknown'],
  [{ kind: 'withheld', ...unsent }, 'unavailable', 'not-sent'],
];

describe('interpretOutcome', () => {
  it('maps as in the table', () => {
    const rows = TABLE.map(([outcome]) => {
      const { status, delivery, message } = interpretOutcome(outcome);
      const detail =
        'cause' in outcome
          ? `${outcome.cause.kind} ${'status' in outcome.cause ? outcome.cause.status : ''}`
          : '';
      return [
        `${outcome.kind} ${detail}`.trim(),
        outcome.written ? 'written' : 'unwritten',
        status,
        delivery,
        message,
      ];
    });
    if (process.env['PRINT_TABLES']) console.info(rows.map((row) => row.join(' | ')).join('\n'));
    expect(rows.map(([, , status, delivery]) => [status, delivery])).toEqual(
      TABLE.map(([, status, delivery]) => [status, delivery]),
    );
  });

  it('names code and message of the server, and keeps its data', () => {
    expect(interpretOutcome({ ...error(-32602, 'Unknown tool: x', 7), ...sent })).toEqual({
      status: 'protocol-error',
      delivery: 'answered',
      message:
        'The server answered with error -32602: "Unknown tool: x"; check the name of the tool and its arguments.',
      error: { code: -32602, message: 'Unknown tool: x', data: 7 },
    });
    const foreign = interpretOutcome({ ...error(-32000, 'x'), correlated: false, ...sent });
    expect(foreign.message).toBe(
      'The server answered with error -32000, without the id of the request: "x".',
    );
    expect(interpretOutcome({ ...error(1, ' '), ...sent }).message).toContain('error 1: without a message.');
  });

  it('says after how long to try again, and when waiting cannot help', () => {
    const busy = unreachable('http-status', 503, { retryAfterMs: 1_500 });
    expect(interpretOutcome({ ...busy, ...unsent }).message).toContain(
      'call again later, not before 2 s from now',
    );
    const missing = unreachable('spawn-failed', undefined, { terminal: true });
    expect(interpretOutcome({ ...missing, ...unsent }).message).toContain(
      'correct the configuration of the peer',
    );
  });

  const text = fc.string({ unit: 'binary', maxLength: 400 });
  const base = { written: fc.boolean() };
  const close = fc.record({
    kind: fc.constantFrom<CloseCause['kind']>(
      'exit',
      'end-of-output',
      'reset',
      'stream-ended',
      'protocol',
      'host',
    ),
    detail: text,
  });
  const cause = fc.record(
    {
      kind: fc.constantFrom<UnreachableCause['kind']>(
        ...(['spawn-failed', 'connect-failed', 'http-status', 'redirected', 'html'] as const),
      ),
      detail: text,
      terminal: fc.boolean(),
      status: fc.integer({ min: 100, max: 599 }),
      retryAfterMs: fc.double(),
    },
    { requiredKeys: ['kind', 'detail', 'terminal'] },
  );
  const anyOutcome: fc.Arbitrary<NoResultOutcome> = fc.oneof(
    fc.record({
      ...base,
      kind: fc.constant('error' as const),
      correlated: fc.boolean(),
      error: fc.record({ code: fc.integer(), message: text }),
    }),
    fc.record({ ...base, kind: fc.constant('malformed' as const), detail: text }),
    fc.record({ ...base, kind: fc.constant('timeout' as const), timeoutMs: fc.nat() }),
    fc.record({ ...base, kind: fc.constant('closed' as const), cause: close }),
    fc.record({ ...base, kind: fc.constant('cancelled' as const), detail: text }),
    fc.record({
      ...base,
      kind: fc.constant('unauthorized' as const),
      status: fc.constantFrom(401 as const, 403 as const),
      challenge: fc.option(text),
    }),
    fc.record({ ...base, kind: fc.constant('unreachable' as const), cause }),
    fc.record({ ...base, written: fc.constant(true), kind: fc.constant('session-lost' as const) }),
    fc.record({ written: fc.constant(false as const), kind: fc.constant('withheld' as const) }),
  );
  const ANSWERED = new Set(['error', 'malformed', 'unauthorized']);

  it('is total; unknown exactly where something was written and the server did not answer', () => {
    fc.assert(
      fc.property(anyOutcome, (outcome) => {
        const { delivery, message, status } = interpretOutcome(outcome);
        if (!outcome.written) expect(delivery).not.toBe('unknown');
        if (outcome.written) expect(delivery).not.toBe('not-sent');
        if (ANSWERED.has(outcome.kind)) expect(delivery).toBe('answered');
        else expect(delivery).toBe(outcome.written ? 'unknown' : 'not-sent');
        // Never claims that what may have been executed failed.
        if (delivery === 'unknown') expect(message).toContain('may have been executed');
        else expect(message).not.toContain('may have been executed');
        expect(status).toBeTruthy();
        expect(message).toMatch(/^[A-Z].*\.$/s);
        expect(message).not.toMatch(/[\p{Cc}\u200b\u202a-\u202e\u2028]/u);
        expect(message.length).toBeLessThan(700);
      }),
      { numRuns: 1_000 },
    );
  });
});
