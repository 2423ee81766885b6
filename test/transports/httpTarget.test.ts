import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readHttpTarget } from '../../src/transports/httpTarget.js';

function target(url: string, headers?: Record<string, string>) {
  const reading = readHttpTarget(url, headers);
  if (!reading.ok) throw new Error(reading.problem);
  return reading.target;
}

describe('what is configured', () => {
  test('the URL loses credentials and fragment', () => {
    const { url, path } = target('https://us:pw@Example.com:443/a/../b?x=1#y');
    expect([url.href, path]).toEqual(['https://example.com/b?x=1', '/b?x=1']);
  });

  test.each([
    ['http://us:pw@a.example/', 'us:pw'],
    ['http://us@a.example/', 'us:'],
    ['http://:pw@a.example/', ':pw'],
    ['http://u%3As:p%40w@a.example/', 'u:s:p@w'],
    ['http://u%ZZ:pw@a.example/', 'u%ZZ:pw'],
  ])('%s', (url, credentials) => {
    expect(target(url).headers['authorization']).toBe(`Basic ${Buffer.from(credentials).toString('base64')}`);
  });

  test('names are in lower case', () => {
    expect(target('http://a.example', { 'X-A': '1', AUTHORIZATION: 'x' }).headers).toEqual({
      'x-a': '1',
      authorization: 'x',
    });
  });

  test('total, and the problem never holds what it is about', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.webUrl()),
        fc.dictionary(fc.string(), fc.string()),
        (url, headers) => {
          const reading = readHttpTarget(url, headers);
          if (!reading.ok) expect(reading.problem).toMatch(/^[^\p{Cc}]{10,300}$/u);
        },
      ),
    );
  });
});

describe('what is shown', () => {
  const secret = 's3cr3t-value';
  const { show } = target(
    `http://user-name:${secret}@a.example/key-0123456789abcdef/mcp?token=${secret}&q=some%20thing`,
    {
      authorization: `Bearer abc.${secret}`,
      'x-api-key': 'key=topsecret; other',
      'accept-language': 'en',
    },
  );

  test.each([
    [`connect ${secret} failed`, 'connect [redacted] failed'],
    [`Bearer abc.${secret}`, '[redacted]'],
    ['topsecret', '[redacted]'],
    ['user-name', '[redacted]'],
    ['/key-0123456789abcdef/mcp', '/[redacted]/mcp'],
    ['some thing', '[redacted]'],
    ['some%20thing', '[redacted]'],
    ['an engine, a bearer', 'an engine, a bearer'],
    ['a\u001bb', 'a\\u{1b}b'],
  ])('%s', (text, shown) => {
    expect(show(text, 200)).toBe(shown);
  });

  test('bounded', () => {
    expect(show('x'.repeat(500), 300).length).toBe(300);
  });
});
