import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readEndpoint } from '../../src/transports/sseEndpoint.js';

const STREAM = new URL('https://mcp.example:8443/v1/sse?key=1');
const read = (text: string, stream = STREAM) => readEndpoint(Buffer.from(text), stream);

describe('where messages go', () => {
  test.each([
    ['/messages?session_id=1', 'https://mcp.example:8443/messages?session_id=1'],
    ['messages/1', 'https://mcp.example:8443/v1/messages/1'],
    ['?sessionId=1', 'https://mcp.example:8443/v1/sse?sessionId=1'],
    ['https://mcp.example:8443/a#b', 'https://mcp.example:8443/a'],
    ['//mcp.example:8443/a', 'https://mcp.example:8443/a'],
    ['  /a  ', 'https://mcp.example:8443/a'],
    ['/ä', 'https://mcp.example:8443/%C3%A4'],
  ])('%s', (text, url) => {
    const reading = read(text);
    expect(reading.ok && reading.url.href).toBe(url);
  });

  test('the port of the scheme is no other origin', () => {
    const reading = read('http://mcp.example:80/a', new URL('http://mcp.example/sse'));
    expect(reading.ok).toBe(true);
  });
});

describe('what is refused', () => {
  test.each([
    'https://mcp.example/a',
    'http://mcp.example:8443/a',
    'https://evil.example:8443/a?token=secret',
    '//evil.example/a',
    '/\\evil.example/a',
    'https://mcp.example:8443@evil.example/a',
  ])('another origin: %s', (text) => {
    const reading = read(text);
    expect(reading).toMatchObject({ ok: false, foreign: true });
    const detail = reading.ok ? '' : reading.detail;
    expect(detail).toContain('not contacted');
    expect(detail).toContain('https://mcp.example:8443');
    expect(detail).not.toContain('secret');
  });

  test.each([
    ['', 'empty'],
    [' \n ', 'empty'],
    ['https://', 'no URL'],
    ['/a\n/b', 'no URL'],
    ['/a\u0000', 'no URL'],
    [`/${'a'.repeat(5000)}`, 'longer'],
    ['data:text/plain,x', 'neither http: nor https:'],
    ['file:///etc/passwd', 'neither http: nor https:'],
    ['https://user@mcp.example:8443/a', 'user name'],
    ['https://:pass@mcp.example:8443/a', 'user name'],
  ])('%j', (text, said) => {
    const reading = read(text);
    expect(reading).toMatchObject({ ok: false, foreign: false });
    expect(reading.ok ? '' : reading.detail).toContain(said);
  });

  test('total, and never another origin', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.webUrl(), fc.string({ unit: 'binary' })), (text) => {
        const reading = read(text);
        expect(reading.ok ? reading.url.origin : STREAM.origin).toBe(STREAM.origin);
      }),
    );
  });
});
