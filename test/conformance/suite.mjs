// The official suite: installed on demand in a folder of its own, run on a Node of its own (it needs Node 22 or later;
// this package supports Node 20), one scenario at a time.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';

const folder = fileURLToPath(new URL('suite/', import.meta.url));
const modules = join(folder, 'node_modules');
const entry = join(modules, '@modelcontextprotocol/conformance/dist/index.js');
const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
const FIRST_NODE = 22;
/** What the suite gives the client; the scenario fails where that does not do. */
const CLIENT_TIMEOUT_MS = 90_000;
/** The suite itself is ended after so much. A report is forty scenarios. */
const SCENARIO_TIMEOUT_MS = 120_000;
const REPORT_TIMEOUT_MS = 600_000;

export const suiteVersion = manifest.dependencies['@modelcontextprotocol/conformance'];

const installed = () =>
  existsSync(entry) &&
  JSON.parse(readFileSync(join(entry, '../../package.json'), 'utf8')).version === suiteVersion;

/** The pinned Node where there is one for this platform, else the one that runs this. */
function suiteNode() {
  const { platform, arch } = process;
  const name = `node-${platform === 'win32' ? 'win' : platform}-${arch}`;
  const pinned = join(modules, name, 'bin', platform === 'win32' ? 'node.exe' : 'node');
  if (existsSync(pinned)) return pinned;
  if (Number.parseInt(process.versions.node, 10) >= FIRST_NODE) return process.execPath;
  throw new Error(`the suite needs Node ${FIRST_NODE}, and there is no pinned one for ${platform}-${arch}`);
}

/** Installs what the lock file says, unless it is there. */
export function installSuite() {
  if (!installed()) {
    console.log(`installing the suite ${suiteVersion}`);
    const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm';
    const done = spawnSync(
      npm,
      ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'],
      // `npm run` hands its own settings on by the environment; this installation has none of them.
      { cwd: folder, env: withoutNpm(process.env), stdio: 'inherit', shell: process.platform === 'win32' },
    );
    if (done.status !== 0 || !installed()) throw new Error('npm ci of the suite failed');
  }
  return new Suite(suiteNode());
}

/** Without what `npm run` says of the script that runs; where packages come from stays as it is. */
function withoutNpm(env) {
  return Object.fromEntries(
    Object.entries(env).filter(
      ([name]) => !/^npm_(package|lifecycle|command|execpath|node_execpath)/.test(name),
    ),
  );
}

const quoted = (path) => (process.platform === 'win32' ? `"${path}"` : `'${path.replaceAll("'", "'\\''")}'`);
const shown = (output) => stripVTControlCharacters(output).trim();

/** Suites and drivers that run, so that nothing is left when this process is ended. */
const running = new Set();
process.on('exit', () => {
  for (const child of running) killGroup(child);
});

function killGroup(child) {
  try {
    if (process.platform === 'win32') child.kill('SIGKILL');
    else process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

class Suite {
  #node;

  constructor(node) {
    this.#node = node;
    this.nodeVersion = spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim();
  }

  /** Client scenarios of a revision by the suite's own word. */
  requirements(revision) {
    const { stdout, status } = spawnSync(
      this.#node,
      [entry, 'list', '--client', '--requirements', revision],
      { encoding: 'utf8' },
    );
    if (status !== 0) throw new Error(`the suite knows no requirements of ${revision}`);
    const lines = shown(stdout).split('\n');
    const scored = lines.slice(lines.findIndex((line) => line.startsWith('Client scenarios')) + 1);
    const end = scored.findIndex((line) => line.trim() === '');
    const names = (some) => some.flatMap((line) => /^\s*- (\S+)/.exec(line)?.[1] ?? []);
    return {
      required: names(scored.slice(0, end < 0 ? scored.length : end)),
      unscored: names(end < 0 ? [] : scored.slice(end).filter((line) => line.includes('[client]'))),
    };
  }

  /** Runs one scenario; what its checks and its exit code were. */
  async scenario({ name, revision, command, env, outputDir }) {
    mkdirSync(outputDir, { recursive: true });
    const args = ['--scenario', name, '--spec-version', revision, '--force'];
    const { code, output } = await this.#client([...args, '-o', outputDir], command, env);
    const checks = readdirSync(outputDir, { recursive: true }).filter((file) => file.endsWith('checks.json'));
    return {
      exitCode: code,
      output,
      checks: checks.length === 1 ? JSON.parse(readFileSync(join(outputDir, checks[0]), 'utf8')) : null,
    };
  }

  /** The official report: all that a revision requires at once, as lenient as it is. */
  report({ revision, command, env, outputDir }) {
    return this.#client(['--requirements', revision, '-o', outputDir], command, env, REPORT_TIMEOUT_MS);
  }

  #client(args, command, env, timeoutMs = SCENARIO_TIMEOUT_MS) {
    return new Promise((resolve) => {
      const child = spawn(
        this.#node,
        [
          '--no-deprecation',
          ...[entry, 'client', '--command', command.map(quoted).join(' ')],
          ...['--timeout', String(CLIENT_TIMEOUT_MS)],
          ...args,
        ],
        {
          env: { ...process.env, ...env },
          stdio: ['ignore', 'pipe', 'pipe'],
          detached: process.platform !== 'win32',
        },
      );
      running.add(child);
      let output = '';
      const timer = setTimeout(() => {
        output += `\nended after ${timeoutMs} ms`;
        killGroup(child);
      }, timeoutMs);
      const add = (data) => {
        output += data;
      };
      child.stdout.setEncoding('utf8').on('data', add);
      child.stderr.setEncoding('utf8').on('data', add);
      child.on('error', (error) => add(String(error)));
      child.on('close', (code) => {
        clearTimeout(timer);
        killGroup(child);
        running.delete(child);
        resolve({ code: code ?? -1, output: shown(output) });
      });
    });
  }
}
