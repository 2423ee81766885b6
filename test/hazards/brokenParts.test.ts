/** Parts that a host supplies and that break their contract: transports that throw or hang, options that are no options. */
import { afterEach, describe, expect, it } from 'vitest';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import type { TransportFactory } from '../../src/transports/transport.js';
import { modernFake } from '../host/fakes.js';

const hosts: Host[] = [];
afterEach(async () => {
  for (const host of hosts.splice(0)) await host.stop();
});

function started(createTransport: TransportFactory, options = {}): Host {
  const host = createHost({
    peers: { one: { identity: 'broken', createTransport, maxInFlight: 1 } },
    ...options,
  });
  hosts.push(host);
  return host;
}

/** A transport of a working server, with one method replaced while `isBroken()`. */
function broken(
  method: 'send' | 'abort' | 'close',
  isBroken: () => boolean,
  how: () => unknown,
  fake = modernFake(),
): TransportFactory {
  return (events) => {
    const transport = fake.config.createTransport(events);
    return new Proxy(transport, {
      get: (target, key) => {
        if (key === method && isBroken()) return how;
        const value = Reflect.get(target, key) as unknown;
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  };
}

const thrower = (): never => {
  throw new Error('broken');
};

describe('a transport', () => {
  it('that throws when it sends: the call is settled, its place is free again, and it is counted', async () => {
    let isBroken = false;
    const host = started(broken('send', () => isBroken, thrower));
    await host.start();
    isBroken = true;
    expect(await host.call('search', {})).toMatchObject({ status: 'unavailable', delivery: 'not-sent' });
    isBroken = false;
    expect(await host.call('search', {})).toMatchObject({ status: 'ok' });
    expect(host.peer('one').report().faults).toMatchObject({ transport: expect.any(Number) });
  });

  it('that throws when an exchange is given up: the deadline holds', async () => {
    const fake = modernFake({
      perRequestStreams: true,
      on: ({ method }) => (method === 'tools/call' ? null : undefined),
    });
    const host = started(broken('abort', () => true, thrower, fake));
    await host.start();
    expect(await host.call('search', {}, { timeoutMs: 5 })).toMatchObject({ status: 'timeout' });
  });

  it('that throws when it closes: the call in flight is settled and the host stops', async () => {
    const fake = modernFake({ on: ({ method }) => (method === 'tools/call' ? null : undefined) });
    const host = started(broken('close', () => true, thrower, fake));
    await host.start();
    const call = host.call('search', {});
    await expect.poll(() => fake.methods()).toContain('tools/call');
    await host.stop();
    expect(await call).toMatchObject({ status: 'cancelled', delivery: 'unknown' });
  });

  it('that never closes: the host stops all the same, when its time is up', async () => {
    const clock = createSimulatedClock();
    const host = started(
      broken(
        'close',
        () => true,
        () => new Promise(() => {}),
      ),
      { clock },
    );
    const ready = host.start();
    for (let i = 0; i < 100; i += 1) await Promise.resolve();
    await ready;
    let isStopped = false;
    const stopped = host.stop().then(() => {
      isStopped = true;
    });
    for (let i = 0; i < 100; i += 1) await Promise.resolve();
    expect(isStopped).toBe(false);
    clock.advance(60_000);
    await stopped;
  });
});

describe('what a caller gives that cannot be written', () => {
  it.each([
    ['a signal that is none', { signal: {} as AbortSignal }, 'protocol-error'],
    ['metadata that is no JSON', { meta: { count: 1n } as never }, 'invalid-arguments'],
  ])('%s: the call says so, and its place is free again', async (_, options, status) => {
    const host = started(modernFake().config.createTransport);
    await host.start();
    expect(await host.call('search', {}, options)).toMatchObject({
      status,
      delivery: 'not-sent',
      message: expect.stringContaining('cannot be'),
    });
    expect(await host.call('search', {}, { timeoutMs: 1_000 })).toMatchObject({ status: 'ok' });
  });
});
