/** Who needs no OAuth does not pay for it. */
import { expect, test, vi } from 'vitest';
import { authServer, guardedServer, guest } from './fakeAuthServer.js';

const loaded = vi.hoisted(() => ({ official: false }));
vi.mock('@modelcontextprotocol/client', () => {
  loaded.official = true;
  return {};
});

test('a fixed token works without the official package, also where it is refused', async () => {
  const as = await authServer();
  const server = await guardedServer(as);
  as.access.set('token-of-the-operator', { scope: '', family: { revoked: false }, valid: true });
  const { host } = guest({
    p: { url: server.url, auth: { type: 'bearer', token: 'token-of-the-operator' } },
  });
  await host.start();
  expect(await host.call('echo')).toMatchObject({ status: 'ok' });
  as.expire();
  expect((await host.call('echo')).status).toBe('unavailable');
  expect(loaded.official).toBe(false);
});
