import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type BuiltPackage, buildPackage } from '../support/builtPackage.js';
import { noProcessWith, processesWith } from '../support/processes.js';

// Half a dozen processes at a time, on a machine that does other things as well.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let built: BuiltPackage;
const running: ChildProcess[] = [];

beforeAll(() => {
  built = buildPackage();
});
afterEach(() => {
  for (const child of running.splice(0)) child.kill('SIGKILL');
});
afterAll(() => built.remove());

function start(example: string, env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [join(built.folder, 'examples', example)], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], ...env },
  });
  running.push(child);
  return child;
}

async function ended(child: ReturnType<typeof start>) {
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>,
  ]);
  return { stdout, stderr, code };
}

describe('demo', () => {
  it('shows every path, the collision and three calls, and leaves no process', async () => {
    const { stdout, stderr, code } = await ended(start('demo.mjs', { TERM: 'xterm-256color' }));
    expect(stderr).toBe('');
    expect(code).toBe(0);

    // How each peer got where it is, what was said, and by which rule.
    const lines = stdout.split('\n');
    expect(peerBlock(lines, 'archive')).toEqual([
      'idle → probing → legacyProbe → legacy 2025-11-25 stdio, allowlisted',
      '→ server/discover 2026-07-28 ← error -32601: Method not found',
      'N5 proves nothing, but the peer is allowlisted: one initialize',
      '→ initialize 2025-11-25 ← a result',
      'N10 legacy, by positive evidence',
    ]);
    expect(peerBlock(lines, 'docs')).toEqual([
      'idle → probing → modern 2026-07-28 stdio',
      '→ server/discover 2026-07-28 ← a result',
      'N2 modern: it names a revision that both speak',
    ]);
    expect(peerBlock(lines, 'picky')).toEqual([
      'idle → probing → modern 2026-07-28 stdio',
      '→ server/discover 2026-07-28 ← error -32022: Unsupported protocol version',
      'N3 modern, whatever it refuses: ask again, never initialize',
      '→ server/discover 2026-07-28 ← a result',
      'N2 modern: it names a revision that both speak',
    ]);
    expect(peerBlock(lines, 'vault')).toEqual([
      'idle → probing → unavailable http',
      expect.stringContaining('→ server/discover 2026-07-28 ←'),
      'N5 proves nothing, and the peer is not allowlisted: no initialize',
      'who trusts it writes into the configuration:',
      expect.stringMatching(/^"vault": \{ "url": "http:\/\/127\.0\.0\.1:\d+\/mcp", "allowLegacy": true \}$/),
    ]);
    expect(peerBlock(lines, 'web')).toEqual([
      'idle → probing → modern 2026-07-28 http',
      '→ server/discover 2026-07-28 ← a result',
      'N2 modern: it names a revision that both speak',
    ]);
    expect(stdout).toContain('initialize was sent once, to archive\n');

    // The merged tools with their owners.
    expect(stdout).toMatch(/^ {3}search +docs /m);
    expect(stdout).toMatch(/^ {3}web\/search +web /m);
    expect(stdout).toMatch(/^ {3}read_note +archive /m);
    expect(stdout).toContain('docs and web both declare search: docs keeps the name, web has web/search');

    // Calls by a bare name, by a prefixed one, and to the legacy peer.
    expect(stdout).toMatch(/✓ search +\{"query":"ocean"\} +docs +ok, answered,/);
    expect(stdout).toMatch(/✓ web\/search +\{"query":"ocean"\} +web +ok, answered,/);
    expect(stdout).toMatch(/✓ read_note +\{"name":"groceries"\} +archive +ok, answered,/);
    expect(stdout).toContain('Ocean currents, Tides');
    expect(stdout).toContain('https://example.com/ocean');
    expect(stdout).toContain('Bread, olives, a lemon.');

    expect(stdout).toContain('✓ 0 of 5 processes left');

    // Plain text in a pipe, whatever the terminal could do, and no line too long for one.
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there
    expect(stdout).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f]/);
    for (const line of lines) expect([...line].length).toBeLessThanOrEqual(100);
    await noProcessWith(built.folder);
  });

  it.skipIf(process.platform === 'win32')('ends everything when it is interrupted', async () => {
    const child = start('demo.mjs');
    const end = ended(child);
    // Its servers are there, in whatever state.
    await expect
      .poll(() => processesWith(join(built.folder, 'examples/servers')).length, { timeout: 60_000 })
      .toBeGreaterThan(2);
    child.kill('SIGINT');
    const { code, stderr, stdout } = await end;
    expect({ code, stderr }).toEqual({ code: 130, stderr: '' });
    expect(stdout).toMatch(/✓ 0 of \d+ processes left/);
    await noProcessWith(built.folder);
  });

  it.skipIf(process.platform === 'win32')(
    'a second signal ends it at once, and nothing is left',
    async () => {
      const child = start('demo.mjs');
      const end = ended(child);
      await expect
        .poll(() => processesWith(join(built.folder, 'examples/servers')).length, { timeout: 60_000 })
        .toBeGreaterThan(2);
      child.kill('SIGINT');
      child.kill('SIGTERM');
      expect((await end).code).toBe(130);
      await noProcessWith(built.folder);
    },
  );

  it('leaves nothing when its reader goes away', async () => {
    const child = start('demo.mjs');
    child.stdout.destroy();
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    expect({ stderr, code }).toEqual({ stderr: '', code: 0 });
    await noProcessWith(built.folder);
  });
});

/** The lines of one peer, without its name, each with single spaces. */
function peerBlock(lines: readonly string[], name: string): string[] {
  const from = lines.findIndex((line) => new RegExp(`^ \\S ${name} `).test(line));
  const to = lines.indexOf('', from);
  const [head = '', ...rest] = lines.slice(from, to);
  return [head.slice(3 + name.length), ...rest].map((line) => line.trim().replace(/ +/g, ' '));
}

describe('embedded', () => {
  it('calls, leaves in mid-call, and the server hears of it', async () => {
    const { stdout, stderr, code } = await ended(start('embedded.mjs'));
    expect({ stderr, code }).toEqual({ stderr: '', code: 0 });
    expect(stdout).toBe(
      'search came to: ok, answered by library\nleft in mid-call; the server wrote: cancelled\n',
    );
    await noProcessWith(built.folder);
  });
});

describe('two hosts', () => {
  it('keep their peers, registries and calls apart', async () => {
    const { stdout, stderr, code } = await ended(start('two-hosts.mjs'));
    expect({ stderr, code }).toEqual({ stderr: '', code: 0 });
    expect(stdout.split('\n')).toEqual([
      'work: library is modern (2026-07-28), with echo, search, slow, summarize',
      'home: library is legacy (2025-11-25), with list_notes, read_note',
      'echo of work: ok, hello',
      '',
    ]);
    await noProcessWith(built.folder);
  });
});

describe('inputs', () => {
  it('asks a scripted user in both eras by the same handlers, and takes a no', async () => {
    const { stdout, stderr, code } = await ended(start('inputs/host.mjs'));
    expect({ stderr, code }).toEqual({ stderr: '', code: 0 });
    expect(stdout.split('\n')).toEqual([
      'shop (modern) asks: Who gets the lamp?',
      '  the user fills in {"express":false,"name":"Ada"}',
      'shop (modern) asks: Pay here. https://example.com/pay?order=1',
      '  the user visits the page',
      'shop/order came to: ok, lamp for Ada, by mail',
      '',
      'kiosk (legacy) asks: Who gets the rug?',
      '  the user fills in {"express":true,"name":"Grace"}',
      'kiosk (legacy) asks: Pay here. https://example.com/pay?order=1',
      '  the user visits the page',
      'kiosk/order came to: ok, rug for Grace, express',
      '',
      'shop (modern) asks: Who gets the anvil?',
      'shop/order came to: ok, decline: no anvil',
      '',
      'kiosk (legacy) asks: Who gets the piano?',
      'kiosk/order came to: tool-error, MCP error -32603: The client could not get the input.',
      '',
      '',
    ]);
    await noProcessWith(built.folder);
  });
});
