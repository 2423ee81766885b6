import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  type FileKind,
  fileKind,
  type ResolvedCommand,
  resolveCommand,
} from '../../src/transports/resolveCommand.js';

type Files = Readonly<Record<string, FileKind>>;

function posix(
  command: string,
  files: Files,
  env: Record<string, string> = { PATH: '/a:/b' },
): ResolvedCommand {
  return resolveCommand(command, {
    env,
    platform: 'linux',
    cwd: '/here',
    exists: (file) => files[file] ?? 'missing',
  });
}

function windows(
  command: string,
  files: Files,
  env: Record<string, string> = { Path: 'C:\\a;"C:\\b c"' },
): ResolvedCommand {
  // Files of Windows have no case.
  const folded = new Map(Object.entries(files).map(([file, kind]) => [file.toLowerCase(), kind]));
  return resolveCommand(command, {
    env,
    platform: 'win32',
    cwd: 'C:\\work',
    exists: (file) => folded.get(file.toLowerCase()) ?? 'missing',
  });
}

describe('on POSIX', () => {
  it('a name is looked up in the path, in order, past what may not be executed', () => {
    expect(posix('npx', { '/b/npx': 'executable' })).toEqual({ ok: true, file: '/b/npx' });
    expect(posix('npx', { '/a/npx': 'executable', '/b/npx': 'executable' })).toEqual({
      ok: true,
      file: '/a/npx',
    });
    expect(posix('npx', { '/a/npx': 'file', '/b/npx': 'executable' })).toEqual({ ok: true, file: '/b/npx' });
    expect(posix('npx', { '/a/npx': 'directory', '/b/npx': 'executable' })).toEqual({
      ok: true,
      file: '/b/npx',
    });
  });

  it('a name is not looked up in the working directory, unless the path says so', () => {
    expect(posix('npx', { '/here/npx': 'executable' })).toEqual({ ok: false, why: 'missing', file: 'npx' });
    const files: Files = { '/here/npx': 'executable', '/here/bin/tool': 'executable' };
    expect(posix('npx', files, { PATH: '/a:' })).toEqual({ ok: true, file: '/here/npx' });
    expect(posix('tool', files, { PATH: 'bin' })).toEqual({ ok: true, file: '/here/bin/tool' });
  });

  it('a path is relative to the working directory and not looked up', () => {
    const files: Files = { '/here/bin/tool': 'executable', '/a/bin/tool': 'executable' };
    expect(posix('bin/tool', files)).toEqual({ ok: true, file: '/here/bin/tool' });
    expect(posix('./bin/../bin/tool', files)).toEqual({ ok: true, file: '/here/bin/tool' });
    expect(posix('/a/bin/tool', files)).toEqual({ ok: true, file: '/a/bin/tool' });
    expect(posix('bin/other', files)).toEqual({ ok: false, why: 'missing', file: 'bin/other' });
  });

  it('tells what is wrong with what it found', () => {
    expect(posix('npx', { '/b/npx': 'file' })).toEqual({ ok: false, why: 'not-executable', file: '/b/npx' });
    expect(posix('/a', { '/a': 'directory' })).toEqual({ ok: false, why: 'directory', file: '/a' });
    expect(posix('npx', { '/a/npx': 'file', '/b/npx': 'directory' })).toMatchObject({
      why: 'not-executable',
    });
    expect(posix('', {})).toMatchObject({ ok: false, why: 'missing' });
  });

  it('without a path the usual folders are searched', () => {
    expect(posix('sh', { '/bin/sh': 'executable' }, {})).toEqual({ ok: true, file: '/bin/sh' });
  });
});

describe('on Windows', () => {
  it('a name gets its extension from PATHEXT, and never means the script without one', () => {
    const files: Files = { 'C:\\a\\npx': 'executable', 'C:\\a\\npx.cmd': 'executable' };
    expect(windows('npx', files)).toEqual({ ok: true, file: 'C:\\a\\npx.CMD' });
    expect(windows('npx', { 'C:\\a\\npx': 'executable' })).toMatchObject({ ok: false, why: 'missing' });
  });

  it('extensions go before folders of the path', () => {
    const files: Files = { 'C:\\a\\npx.cmd': 'executable', 'C:\\b c\\npx.exe': 'executable' };
    expect(windows('npx', files)).toEqual({ ok: true, file: 'C:\\a\\npx.CMD' });
    expect(windows('npx', { 'C:\\b c\\npx.exe': 'executable' })).toEqual({
      ok: true,
      file: 'C:\\b c\\npx.EXE',
    });
  });

  it('a name with an extension is taken as it is, or with another one behind it', () => {
    expect(windows('npx.cmd', { 'C:\\a\\npx.cmd': 'executable' })).toEqual({
      ok: true,
      file: 'C:\\a\\npx.cmd',
    });
    expect(windows('node.js', { 'C:\\a\\node.js.exe': 'executable' })).toEqual({
      ok: true,
      file: 'C:\\a\\node.js.EXE',
    });
    expect(
      windows('run.py', { 'C:\\a\\run.py': 'executable' }, { PATH: 'C:\\a', PATHEXT: '.EXE;.PY' }),
    ).toEqual({
      ok: true,
      file: 'C:\\a\\run.py',
    });
  });

  it('a name is not looked up in the working directory', () => {
    expect(windows('npx', { 'C:\\work\\npx.exe': 'executable' })).toMatchObject({
      ok: false,
      why: 'missing',
    });
  });

  it('a path is relative to the working directory, with either slash, and may name a script', () => {
    const files: Files = { 'C:\\work\\bin\\tool.cmd': 'executable', 'C:\\work\\run.js': 'executable' };
    expect(windows('bin/tool', files)).toEqual({ ok: true, file: 'C:\\work\\bin\\tool.CMD' });
    expect(windows('.\\bin\\tool.cmd', files)).toEqual({ ok: true, file: 'C:\\work\\bin\\tool.cmd' });
    expect(windows('C:\\work\\run.js', files)).toEqual({ ok: true, file: 'C:\\work\\run.js' });
  });
});

describe('the real look', () => {
  it('tells kinds of files apart', () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'kind-'));
    const file = path.join(folder, 'file');
    writeFileSync(file, '');
    expect([fileKind(folder), fileKind(file), fileKind(path.join(folder, 'no'))]).toEqual([
      'directory',
      'file',
      'missing',
    ]);
    expect(fileKind(path.join(file, 'below'))).toBe('missing');
    chmodSync(file, 0o755);
    expect(fileKind(file)).toBe('executable');
    rmSync(folder, { recursive: true });
  });
});
