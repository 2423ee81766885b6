/** Providers are code of others: whatever one of their methods does, the host starts, answers and stops. */
import { beforeEach, expect, test, vi } from 'vitest';
import { createSimulatedClock } from '../../../src/testing/clock.js';
import { authServer, guardedServer, guest } from './fakeAuthServer.js';
import { PlainProvider } from './plainProvider.js';

beforeEach(() => {
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  return () => warned.mockRestore();
});

const METHODS = [
  'state',
  'clientInformation',
  'saveClientInformation',
  'tokens',
  'saveTokens',
  'redirectToAuthorization',
  'saveCodeVerifier',
  'codeVerifier',
  'invalidateCredentials',
  'discoveryState',
  'saveDiscoveryState',
  'dpop',
  'validateResourceURL',
  'addClientAuthentication',
  'prepareTokenRequest',
  'exclusively',
  'redeeming',
] as const;
const WAYS: Readonly<Record<string, () => unknown>> = {
  hangs: () => new Promise(() => undefined),
  throws: () => {
    throw new Error('no');
  },
  'rejects with nothing': () => Promise.reject(undefined),
  'gives a number': () => 17,
  'gives an array of null': () => [null],
};
const CASES = METHODS.flatMap((method) => Object.keys(WAYS).map((way) => [method, way] as const));

test.each(CASES)(
  '%s %s',
  async (method, way) => {
    const as = await authServer();
    const server = await guardedServer(as);
    const provider = new PlainProvider();
    Object.assign(provider, { [method]: WAYS[way] });
    if (method === 'redeeming') Object.assign(provider, { exclusively: (work: () => unknown) => work() });
    if (method === 'exclusively')
      Object.assign(provider, { redeeming: (_: string, work: () => unknown) => work() });
    if (method === 'discoveryState') Object.assign(provider, { saveDiscoveryState: () => undefined });
    if (method === 'saveDiscoveryState') Object.assign(provider, { discoveryState: () => undefined });
    const peers = { p: { url: server.url, auth: provider, allowLegacy: true } };
    const { host } = guest(peers, { probeTimeoutMs: 300 });
    await host.start();
    const peer = host.peer('p');
    expect(peer.report().state).toBe('unavailable');
    const url = peer.report().authorizationUrl;
    const back = url === null ? '?code=abcdef&state=x' : await as.visit(url);
    const redeemed = peer.authorize(back).then(
      () => 'done',
      (error: unknown) => error,
    );
    expect((await host.call('echo')).status).toBeDefined();
    await host.stop();
    await redeemed;
    expect(server.count('initialize')).toBe(0);
  },
  20_000,
);

test('a flow whose provider hangs ends after two minutes, and another one may begin', async () => {
  const as = await authServer();
  const server = await guardedServer(as);
  const provider = new PlainProvider();
  const clock = createSimulatedClock();
  const { host, told } = guest({ p: { url: server.url, auth: provider } }, { clock });
  await host.start();
  let reached: () => void = () => undefined;
  const saving = new Promise<void>((resolve) => {
    reached = resolve;
  });
  const saveTokens = () => {
    reached();
    return new Promise<void>(() => undefined);
  };
  Object.assign(provider, { saveTokens });
  const redeemed = host.peer('p').authorize(await as.visit(told[0] ?? ''));
  const late = expect(redeemed).rejects.toThrow(/within 120 s/);
  await saving;
  clock.advance(120_000);
  await late;
  Reflect.deleteProperty(provider, 'saveTokens');
  const again = host.peer('p');
  await again.authorize();
  await again.authorize(await as.visit(told[1] ?? ''));
  expect(again.report().state).toBe('modern');
});

test('a peer that is removed while its provider hangs keeps nobody else waiting', async () => {
  const as = await authServer();
  const server = await guardedServer(as);
  let isFree = false;
  let held: () => void = () => undefined;
  const holding = new Promise<void>((resolve) => {
    held = resolve;
  });
  const provider = Object.assign(new PlainProvider(), {
    exclusively: (work: () => unknown) => {
      if (isFree) return work();
      held();
      return new Promise(() => undefined);
    },
    redeeming: (_state: string, work: () => unknown) => work(),
  });
  const one = guest({ p: { url: server.url, auth: provider } }).host;
  const starting = expect(one.start()).rejects.toThrow(/stopped/);
  await holding;
  isFree = true;
  await one.stop();
  await starting;
  const two = guest({ p: { url: server.url, auth: provider } });
  await two.host.start();
  expect(two.told).toHaveLength(1);
});
