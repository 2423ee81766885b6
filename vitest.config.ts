import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/support/seed.ts'],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    pool: 'forks',
    maxWorkers: 2,
    coverage: {
      provider: 'v8',
      include: ['src/protocol/**', 'src/machines/**', 'src/registry/**'],
      reporter: ['text', 'json-summary'],
      thresholds: {
        'src/protocol/**': { branches: 95 },
        'src/machines/**': { branches: 95 },
        'src/registry/**': { branches: 95 },
      },
    },
  },
});
