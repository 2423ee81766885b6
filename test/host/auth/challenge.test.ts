import { expect, test } from 'vitest';
import { readChallenge, usableScope } from '../../../src/host/auth/challenge.js';

test.each([
  [
    'Bearer realm="x", resource_metadata="https://h/.well-known/a", scope="a b"',
    'https://h/.well-known/a',
    'a b',
  ],
  ['bearer  scope=a,resource_metadata="https://h/m"', 'https://h/m', 'a'],
  ['Basic realm="all, of it", Bearer error="invalid_token", scope="a"', undefined, 'a'],
  ['Negotiate YII==, DPoP algs="ES256", Bearer scope="b"', undefined, 'b'],
  ['Bearer scope="with \\"quotes\\""', undefined, undefined],
  ['Bearer resource_metadata="file:///etc/passwd"', undefined, undefined],
  ['Bearer resource_metadata="not a url"', undefined, undefined],
  ['Basic scope="a", resource_metadata="https://h/m"', undefined, undefined],
  ['Bearer', undefined, undefined],
  ['=,,"', undefined, undefined],
  [null, undefined, undefined],
])('%s', (header, url, scope) => {
  const challenge = readChallenge(header);
  expect(challenge.resourceMetadataUrl?.href).toBe(url);
  expect(challenge.scope).toBe(scope);
});

test('an error is read, and a wish for a nonce where DPoP says it', () => {
  expect(readChallenge('Bearer error="insufficient_scope"').error).toBe('insufficient_scope');
  expect(readChallenge('DPoP error="use_dpop_nonce", error_description="again"').wantsNonce).toBe(true);
  expect(readChallenge('Bearer error="use_dpop_nonce"').wantsNonce).toBe(false);
});

test('what is no scope is none', () => {
  expect(usableScope(' a  b ')).toBe('a b');
  for (const scope of [undefined, '', ' ', 'a\nb', 'a"b', 'ä', 'a'.repeat(3000)]) {
    expect(usableScope(scope)).toBeUndefined();
  }
});

test('a hostile header takes no time', () => {
  readChallenge(`Bearer ${'a="\\"'.repeat(2000)}`);
  readChallenge(`Bearer a="${'\\'.repeat(8000)}`);
  readChallenge(' ,'.repeat(4000));
});
