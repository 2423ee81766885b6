/** Two processes of one peer are never there at the same time, also where the first died of the probe. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { createHost } from '../../src/host/createHost.js';

const SERVER = fileURLToPath(new URL('../fixtures/lockingServer.mjs', import.meta.url));

test('a fresh process is started only when the one before is gone', { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'peerage-lock-'));
  const starts = join(folder, 'starts');
  const host = createHost({
    peers: {
      archive: {
        command: process.execPath,
        args: [SERVER],
        env: { LOCK: join(folder, 'lock'), STARTS: starts },
        allowLegacy: true,
      },
    },
    probeTimeoutMs: 60_000,
    legacyProbeTimeoutMs: 60_000,
    startTimeoutMs: 120_000,
    shutdownGraceMs: 30_000,
    maxAttempts: 0,
  });
  try {
    const { peers } = await host.start();
    expect(peers[0]).toMatchObject({ state: 'legacy', initializeSent: 1, tools: 0 });
    expect(readFileSync(starts, 'utf8')).toBe('started\nstarted\n');
  } finally {
    await host.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
