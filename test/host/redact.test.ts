import { describe, expect, it } from 'vitest';
import { REDACTED, redactor, secretsOf } from '../../src/host/redact.js';

describe('secretsOf', () => {
  it('takes header values, with and without their scheme, and what the query calls secret', () => {
    const secrets = secretsOf({
      url: 'https://h/mcp?api_key=K%2F123456&page=intro-duction',
      headers: { Authorization: 'Bearer sk-abcdef', 'X-Short': 'abc' },
    });
    expect(secrets).toEqual(['Bearer sk-abcdef', 'sk-abcdef', 'K/123456', 'K%2F123456']);
  });

  it('takes variables and flags whose name speaks of a secret', () => {
    const secrets = secretsOf({
      command: 'x',
      args: ['--token=tok-123456', '--api-key', 'key-123456', '--root', '/home/someone', '--password'],
      env: { GITHUB_TOKEN: 'ghp-123456', ROOT: '/home/someone' },
    });
    expect(secrets).toEqual(['ghp-123456', 'tok-123456', 'key-123456']);
  });

  it('knows nothing of transports that a host supplies', () => {
    expect(secretsOf({ identity: 'secret-token', createTransport: () => Promise.reject() as never })).toEqual(
      [],
    );
  });
});

describe('redactor', () => {
  it('replaces all of them, the longest first, and takes patterns literally', () => {
    const redact = redactor(['abc.*+', 'Bearer abc.*+', '$&$1__']);
    expect(redact('Bearer abc.*+ and abc.*+, abcxx, $&$1__')).toBe(
      `${REDACTED} and ${REDACTED}, abcxx, ${REDACTED}`,
    );
    expect(redactor([])('text')).toBe('text');
  });
});
