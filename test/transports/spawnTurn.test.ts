import { expect, it } from 'vitest';
import { spawnTurn } from '../../src/transports/spawnTurn.js';

const loop = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

it('gives one turn to each turn of the event loop, in the order of asking', async () => {
  const started: string[] = [];
  for (const name of ['first', 'second', 'third']) void spawnTurn().then(() => started.push(name));
  await Promise.resolve();
  expect(started).toEqual(['first']);
  await loop();
  expect(started).toEqual(['first', 'second']);
  await loop();
  expect(started).toEqual(['first', 'second', 'third']);
});

it('makes nobody wait where nobody else starts a process', async () => {
  await spawnTurn();
  await loop();
  let isStarted = false;
  void spawnTurn().then(() => {
    isStarted = true;
  });
  await Promise.resolve();
  expect(isStarted).toBe(true);
});
