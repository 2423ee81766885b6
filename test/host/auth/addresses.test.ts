import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { describe, expect, test } from 'vitest';
import { classOfAddress, classOfHost } from '../../../src/host/auth/addresses.js';
import { AddressGuard } from '../../../src/host/auth/addressGuard.js';

test.each([
  ['93.184.216.34', 'public'],
  ['2606:2800:220:1::1', 'public'],
  ['127.0.0.1', 'loopback'],
  ['127.255.0.9', 'loopback'],
  ['::1', 'loopback'],
  ['::ffff:127.0.0.1', 'loopback'],
  ['::ffff:7f00:1', 'loopback'],
  ['::127.0.0.1', 'loopback'],
  ['64:ff9b::7f00:1', 'loopback'],
  ['2002:7f00:1::', 'loopback'],
  ['10.1.2.3', 'private'],
  ['172.31.255.255', 'private'],
  ['172.32.0.1', 'public'],
  ['192.168.0.1', 'private'],
  ['::ffff:10.0.0.1', 'private'],
  ['64:ff9b::a00:1', 'private'],
  ['fd12:3456::1', 'private'],
  ['100.64.0.1', 'shared'],
  ['100.128.0.1', 'public'],
  ['169.254.7.7', 'link-local'],
  ['fe80::1', 'link-local'],
  ['fe80::1%eth0', 'link-local'],
  ['169.254.169.254', 'forbidden'],
  ['::ffff:169.254.169.254', 'forbidden'],
  ['fd00:ec2::254', 'forbidden'],
  ['100.100.100.200', 'forbidden'],
  ['0.0.0.0', 'forbidden'],
  ['::', 'forbidden'],
  ['255.255.255.255', 'forbidden'],
  ['ff02::1', 'forbidden'],
  ['no address', 'forbidden'],
])('%s is %s', (address, kind) => {
  expect(classOfAddress(address)).toBe(kind);
});

test('a host is an address, a name of this machine, or a name', () => {
  expect(classOfHost('[::1]')).toBe('loopback');
  expect(classOfHost('LOCALHOST.')).toBe('loopback');
  expect(classOfHost('a.localhost')).toBe('loopback');
  expect(classOfHost(new URL('http://2130706433/').hostname)).toBe('loopback');
  expect(classOfHost('localhost.example.com')).toBeNull();
});

/** Answers one list after the other, the last one for ever. */
function resolver(...answers: readonly string[][]): LookupFunction & { asked: string[] } {
  const asked: string[] = [];
  const lookup: LookupFunction = (hostname, _options, callback) => {
    asked.push(hostname);
    const found = answers[Math.min(asked.length, answers.length) - 1] ?? [];
    callback(
      null,
      found.map((address): LookupAddress => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  };
  return Object.assign(lookup, { asked });
}

function resolved(guard: AddressGuard, name: string): Promise<unknown> {
  return new Promise((resolve) => {
    guard.lookup(name, { all: true }, (error, found) => resolve(error ?? found));
  });
}

describe('a guard', () => {
  test.each([
    'http://as.example.com/token',
    'http://127.0.0.1:8080/token',
    'https://127.0.0.1/token',
    'https://localhost/token',
    'https://[::ffff:10.0.0.1]/token',
    'https://169.254.169.254/latest',
    'https://10.0.0.1/token',
    'ftp://as.example.com/',
  ])('of a public endpoint does not admit %s', async (url) => {
    const guard = new AddressGuard(new URL('https://93.184.216.34/mcp'));
    await expect(guard.admit(new URL(url))).rejects.toThrow(TypeError);
  });

  test('of a loopback endpoint admits loopback, also over http, and nothing else in the house', async () => {
    const guard = new AddressGuard(new URL('http://localhost:1/mcp'));
    await guard.admit(new URL('http://127.0.0.1:2/'));
    await guard.admit(new URL('https://[::1]:2/'));
    await expect(guard.admit(new URL('https://10.0.0.1/'))).rejects.toThrow();
    await expect(guard.admit(new URL('http://example.com/'))).rejects.toThrow();
    await expect(guard.admit(new URL('https://169.254.169.254/'))).rejects.toThrow();
  });

  test('judges what a name resolves to, all of it', async () => {
    const endpoint = new URL('https://93.184.216.34/mcp');
    for (const answer of [
      ['127.0.0.1'],
      ['93.184.216.34', '10.0.0.1'],
      ['::ffff:192.168.1.1'],
      ['169.254.169.254'],
      [],
    ])
      expect(await resolved(new AddressGuard(endpoint, resolver(answer)), 'as.example.com')).toBeInstanceOf(
        Error,
      );
    const good = new AddressGuard(endpoint, resolver(['93.184.216.34']));
    expect(await resolved(good, 'as.example.com')).toEqual([{ address: '93.184.216.34', family: 4 }]);
  });

  test('knows the class of an endpoint by name once, and only if all its addresses have it', async () => {
    const inside = new AddressGuard(
      new URL('https://mcp.corp/mcp'),
      resolver(['10.0.0.2'], ['10.0.0.1'], ['10.0.0.3']),
    );
    expect(await resolved(inside, 'as.corp')).toEqual([{ address: '10.0.0.2', family: 4 }]);
    expect(await resolved(inside, 'as.corp')).toEqual([{ address: '10.0.0.3', family: 4 }]);
    const mixed = new AddressGuard(
      new URL('https://mcp.corp/mcp'),
      resolver(['10.0.0.2'], ['10.0.0.1', '8.8.8.8']),
    );
    expect(await resolved(mixed, 'as.corp')).toBeInstanceOf(Error);
    const rebound = new AddressGuard(new URL('https://mcp.evil/mcp'), resolver(['127.0.0.1']));
    expect(await resolved(rebound, 'as.evil')).toBeInstanceOf(Error);
  });
});
