import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PeerAuth, PeerConfig, ResolvedPeer } from '../../src/host/config.js';
import { parseHostOptions, parsePeer } from '../../src/host/options.js';
import { type ExecutableResolver, pinOf } from '../../src/host/pin.js';

const inBin: ExecutableResolver = (peer) => ({ ok: true, file: `/bin/${peer.command}` });
const peerOf = (config: PeerConfig, name = 'archive'): ResolvedPeer =>
  parsePeer(name, config, ['2025-11-25']);
const pin = (config: PeerConfig): string => pinOf(peerOf(config), inBin);

const word = fc.stringMatching(/^[a-zA-Z0-9_.=/ -]{1,12}$/).filter((text) => text.trim() !== '');
const texts = fc.dictionary(fc.stringMatching(/^[A-Za-z][A-Za-z0-9_]{0,8}$/), word, { maxKeys: 4 });
const headers = fc.dictionary(fc.stringMatching(/^x-[a-z]{1,8}$/), fc.stringMatching(/^[a-z0-9]{1,12}$/), {
  maxKeys: 4,
});
const stdio = fc.record({
  command: word,
  args: fc.array(word, { maxLength: 4 }),
  cwd: word.map((text) => `/${text}`),
  env: texts,
});
const http = fc.record({
  url: fc
    .webUrl({ withQueryParameters: true, validSchemes: ['http', 'https'] })
    .filter((url) => !url.includes('@')),
  headers,
});
const peers: fc.Arbitrary<PeerConfig> = fc.oneof(
  stdio,
  http,
  word.map((identity) => ({
    identity,
    createTransport: () => {
      throw new Error('not called');
    },
  })),
);

/** Everything a pin is made of, compared without hashing. */
function content(peer: ResolvedPeer): unknown {
  if (peer.transport === 'stdio') return ['stdio', peer.command, peer.args, peer.cwd, sorted(peer.env)];
  if (peer.transport === 'custom') return ['custom', peer.identity];
  return [peer.transport, peer.url, sorted(peer.headers), peer.proxy ?? ''];
}
const sorted = (map: Readonly<Record<string, string>>) =>
  Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));
const reversed = (map: Readonly<Record<string, string>>) => Object.fromEntries(Object.entries(map).reverse());

describe('N8: the pin', () => {
  it('is equal exactly where what decides the server is equal', () => {
    fc.assert(
      fc.property(peers, peers, (left, right) => {
        const equal = JSON.stringify(content(peerOf(left))) === JSON.stringify(content(peerOf(right)));
        expect(pin(left) === pin(right)).toBe(equal);
      }),
      { numRuns: 500 },
    );
  });

  it('changes with every single field of a process', () => {
    fc.assert(
      fc.property(stdio, word, fc.nat(), (config, other, at) => {
        const before = pin(config);
        const where = at % (config.args.length + 1);
        const variants: PeerConfig[] = [
          { ...config, command: `${config.command}${other}` },
          { ...config, args: config.args.toSpliced(where, 0, other) },
          { ...config, args: [...config.args, ''] },
          { ...config, cwd: `${config.cwd}/below` },
          { ...config, env: { ...config.env, EXTRA_VARIABLE: other } },
          ...config.args.map((_, index) => ({
            ...config,
            args: config.args.with(index, `${config.args[index]}x`),
          })),
          ...Object.keys(config.env).map((key) => ({
            ...config,
            env: { ...config.env, [key]: `${config.env[key]}x` },
          })),
        ];
        for (const variant of variants) expect(pin(variant)).not.toBe(before);
      }),
    );
  });

  it('changes with every single field of an endpoint', () => {
    fc.assert(
      fc.property(http, (config) => {
        const before = pin(config);
        const url = new URL(config.url);
        url.searchParams.append('more', '1');
        const variants: PeerConfig[] = [
          { ...config, url: url.href },
          { ...config, headers: { ...config.headers, 'y-extra': '1' } },
          ...Object.keys(config.headers).map((key) => ({
            ...config,
            headers: { ...config.headers, [key]: `${config.headers[key]}x` },
          })),
        ];
        for (const variant of variants) expect(pin(variant)).not.toBe(before);
      }),
    );
  });

  it('changes with the proxy, and not with what authorizes', () => {
    const config = { url: 'https://example.com/mcp' };
    const proxy = 'http://proxy.example.com:3128';
    const behind = pin({ ...config, proxy });
    expect(behind).not.toBe(pin(config));
    expect(pin({ ...config, proxy: 'http://proxy.example.com:3129' })).not.toBe(behind);
    expect(pin({ ...config, proxy: 'HTTP://Proxy.example.com:3128/' })).toBe(behind);
    const provider = { tokens: () => undefined, clientInformation: () => undefined } as unknown as PeerAuth;
    const issuer = 'https://login.example.com';
    for (const auth of [
      { type: 'bearer', token: 'one' },
      { type: 'bearer', token: 'two' },
      { type: 'client-credentials', clientId: 'a', clientSecret: 'b', issuer },
      provider,
    ] as const) {
      expect(pin({ ...config, auth })).toBe(pin(config));
    }
  });

  it('does not depend on the order of keys', () => {
    fc.assert(
      fc.property(stdio, http, (process, endpoint) => {
        expect(pin({ ...process, env: reversed(process.env) })).toBe(pin(process));
        expect(pin({ ...endpoint, headers: reversed(endpoint.headers) })).toBe(pin(endpoint));
      }),
    );
  });

  it('does not depend on the name, on policy, nor on the spelling of header names and of the URL', () => {
    const config = { url: 'https://example.com/mcp', headers: { 'x-a': '1' } };
    const same = {
      url: 'HTTPS://EXAMPLE.com:443/mcp#x',
      headers: { 'X-A': '1' },
      allowLegacy: true,
      required: true,
    };
    expect(pin(same)).toBe(pin(config));
    expect(pinOf(peerOf({ ...config, trust: 'trusted', labels: { a: 'b' } }, 'other'))).toBe(pin(config));
  });

  it('depends on the order of arguments', () => {
    expect(pin({ command: 'x', args: ['a', 'b'] })).not.toBe(pin({ command: 'x', args: ['b', 'a'] }));
    expect(pin({ command: 'x', args: ['a b'] })).not.toBe(pin({ command: 'x', args: ['a', 'b'] }));
  });

  it('depends on the executable that is found, not on its name alone', () => {
    const peer = peerOf({ command: 'node' });
    const at = (file: string) => pinOf(peer, () => ({ ok: true, file }));
    expect(at('/usr/bin/node')).not.toBe(at('/opt/bin/node'));
    const missing = pinOf(peer, () => ({ ok: false, why: 'missing', file: 'node' }));
    expect(missing).not.toBe(at('node'));
    expect(missing).not.toBe(at('/usr/bin/node'));
  });

  it('finds the executable on this machine, and shows nothing of what it hashes', () => {
    const [peer] = parseHostOptions({
      peers: { a: { command: process.execPath, env: { TOKEN: 'very-secret' } } },
    }).peers;
    expect(pinOf(peer as ResolvedPeer)).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(pinOf(peer as ResolvedPeer)).toBe(pinOf(peer as ResolvedPeer));
  });
});
