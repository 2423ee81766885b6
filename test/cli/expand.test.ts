/* biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are the texts that people write */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expandVariables } from '../../src/cli/expand.js';

const env = { A: 'one', EMPTY: '', REF: '${A}', SHELL_LIKE: '$(id)', '1X': 'no' };
const text = (input: string): string => {
  const result = expandVariables(input, env);
  if (!result.ok) throw new Error(result.came);
  return result.text;
};

describe('expandVariables', () => {
  it.each([
    ['', ''],
    ['plain $A $$ $(id) `id` {A}', 'plain $A $$ $(id) `id` {A}'],
    ['${A}', 'one'],
    ['Bearer ${A}/${A}', 'Bearer one/one'],
    ['${env:A}', 'one'],
    ['${EMPTY}', ''],
    ['${EMPTY:-other}', 'other'],
    ['${MISSING:-other}', 'other'],
    ['${MISSING:-}', ''],
    ['${env:MISSING:-a:b-c}', 'a:b-c'],
    ['${MISSING:-two\nlines}', 'two\nlines'],
    ['${A:-other}', 'one'],
    ['${REF}', '${A}'],
    ['${SHELL_LIKE}', '$(id)'],
    ['$${A}', '${A}'],
    ['$${input:x}', '${input:x}'],
    ['${', '${'],
    ['${A', '${A'],
  ])('%j → %j', (input, output) => {
    expect(text(input)).toBe(output);
  });

  it('names a missing variable', () => {
    expect(expandVariables('${A} ${MISSING} ${ALSO}', env)).toMatchObject({
      ok: false,
      came: expect.stringContaining('MISSING'),
    });
  });

  it.each(['toString', '__proto__', 'constructor', 'hasOwnProperty'])('finds no %s', (name) => {
    expect(expandVariables(`\${${name}}`, {}).ok).toBe(false);
  });

  it.each([
    '${input:token}',
    '${cmd:cat /etc/passwd}',
    '${workspaceFolder/x}',
    '${}',
    '${1X}',
    '${A B}',
    '${A:+x}',
    '${a-b}',
  ])('refuses %s', (input) => {
    expect(expandVariables(input, env).ok).toBe(false);
  });

  it('shows nothing of a reference that it does not know but its kind', () => {
    const result = expandVariables('${vault:sk-very-secret}', env);
    expect(JSON.stringify(result)).toContain('vault');
    expect(JSON.stringify(result)).not.toContain('secret');
  });

  it('is total, leaves text without references alone, and never looks into values again', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (before, value) => {
        expect(typeof expandVariables(before, {}).ok).toBe('boolean');
        if (!before.includes('${')) expect(text(before)).toBe(before);
        fc.pre(value !== '');
        expect(expandVariables('<${V}>', { V: value })).toEqual({ ok: true, text: `<${value}>` });
      }),
    );
  });
});
