// docs/cache.md is done as it says, with the built package and a real Redis.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { buildPackage } from '../support/builtPackage.js';
import { startRedis, withoutRedis } from '../support/redis.js';

const page = readFileSync(join(import.meta.dirname, '../../docs/cache.md'), 'utf8');
const [, snippet = ''] = /^```js\n(.*?)^```$/ms.exec(page) ?? [];

test('the store that is printed is the store that there is', () => {
  const [, shown = ''] = /^```ts\n(.*?)^```$/ms.exec(page) ?? [];
  const source = readFileSync(join(import.meta.dirname, '../../src/cache/store.ts'), 'utf8');
  const signatures = (code: string) => code.match(/^ {2}\w+\(.*;$/gm);
  expect(signatures(shown)).toEqual(signatures(source));
  expect(signatures(shown)).toHaveLength(3);
});

test.skipIf(withoutRedis)('the snippet runs as it stands there, and ends', { timeout: 120_000 }, async () => {
  const built = buildPackage();
  try {
    const redis = await startRedis();
    try {
      const file = join(built.folder, 'cache.mjs');
      writeFileSync(file, snippet);
      const child = spawn(process.execPath, [file], {
        cwd: built.folder,
        env: { PATH: process.env['PATH'], REDIS_URL: redis.url },
      });
      const [stdout, stderr, [code]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, 'exit'),
      ]);
      expect({ stdout, stderr, code }).toEqual({ stdout: 'value\n', stderr: '', code: 0 });
    } finally {
      await redis.remove();
    }
  } finally {
    built.remove();
  }
});
