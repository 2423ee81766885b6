import { describe, expect, it } from 'vitest';
import { childEnvironment } from '../../src/transports/childEnvironment.js';

const host = {
  PATH: '/bin',
  HOME: '/home/me',
  TERM: 'xterm-256color',
  TZ: 'UTC',
  SHELL: '() { :;}; echo',
  GITHUB_TOKEN: 'canary',
  NODE_OPTIONS: '--inspect',
  LANG: undefined,
};

describe('the environment of a child', () => {
  it('is a short list, made for output that no terminal shows', () => {
    expect({ ...childEnvironment({}, host, 'linux') }).toEqual({
      PATH: '/bin',
      HOME: '/home/me',
      TZ: 'UTC',
      TERM: 'dumb',
      NO_COLOR: '1',
    });
  });

  it('takes what is configured, which wins, and keeps the path', () => {
    const env = childEnvironment(
      { FOO: '1', HOME: '/elsewhere', TERM: 'vt100', NO_COLOR: '' },
      host,
      'linux',
    );
    expect({ ...env }).toEqual({
      PATH: '/bin',
      HOME: '/elsewhere',
      TZ: 'UTC',
      TERM: 'vt100',
      NO_COLOR: '',
      FOO: '1',
    });
    expect(childEnvironment({ PATH: '/mine' }, host, 'linux')['PATH']).toBe('/mine');
  });

  it('compares names without case on Windows, and nowhere else', () => {
    const inherited = { Path: 'C:\\a', SystemRoot: 'C:\\Windows', Secret: 'canary' };
    expect({ ...childEnvironment({ PATH: 'D:\\b' }, inherited, 'win32') }).toEqual({
      PATH: 'D:\\b',
      SystemRoot: 'C:\\Windows',
      TERM: 'dumb',
      NO_COLOR: '1',
    });
    expect(childEnvironment({}, inherited, 'win32')['Path']).toBe('C:\\a');
    expect(childEnvironment({ Path: '/b' }, host, 'linux')).toMatchObject({ PATH: '/bin', Path: '/b' });
  });

  it('may hold any name', () => {
    const env = childEnvironment(JSON.parse('{"__proto__":"x","constructor":"y"}'), host, 'linux');
    expect(Object.keys(env)).toEqual(expect.arrayContaining(['__proto__', 'constructor']));
  });
});
