/** What waits in a pipe that takes nothing is not written while its peer negotiates anew on the same connection. */
import { afterEach, expect, test } from 'vitest';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { advance, quiet } from '../../src/testing/drive.js';
import { modernFake } from './fakes.js';

const hosts: Host[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

test('a call in the pipe when the revision is refused goes out after the probe and the list, once', async () => {
  const fake = modernFake({
    on: ({ method, params }) => (method === 'tools/call' && params?.['name'] === 'hang' ? null : undefined),
    tools: ['hang', 'search'],
  });
  const clock = createSimulatedClock();
  const host = createHost({ clock, peers: { one: fake.config } });
  hosts.push(host);
  await host.start();
  const refused = host.call('hang');
  while ((host.status().peers[0]?.inFlight ?? 0) < 1) await quiet();
  const { id } = fake.heard.at(-1) ?? {};
  expect(fake.methods().at(-1)).toBe('tools/call');
  const control = fake.connections[0];
  control?.hold();
  const waiting = host.call('search', { q: 'held' });
  while ((host.status().peers[0]?.inFlight ?? 0) < 2) await quiet();
  const before = fake.heard.length;
  fake.say({
    id: id as number,
    error: { code: -32022, message: 'No.', data: { supported: ['2026-07-28'] } },
  });
  expect(await refused).toMatchObject({ status: 'protocol-error', error: { code: -32022 } });
  expect(host.peer('one').state).toBe('reconnecting');

  control?.release();
  await quiet();
  expect(fake.methods().slice(before)).toEqual([]);
  await advance(clock, 1_000);
  expect(await waiting).toMatchObject({ status: 'ok', delivery: 'answered', attempts: 1 });
  expect(fake.methods().slice(before)).toEqual(['server/discover', 'tools/list', 'tools/call']);
  expect(fake.connections).toHaveLength(1);
});
