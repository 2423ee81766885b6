/** Slots, order and keys of one peer, by example and against a model that looks through its whole queue each time. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Budget, type Waiting } from '../../src/calls/budget.js';
import { settled } from './inputHarness.js';

/** Records turns in the order in which they are given. */
function watch(budget: Budget) {
  const turns: string[] = [];
  const wait = (name: string, key?: string): Waiting => {
    const waiting = budget.wait(key);
    if (waiting === null) throw new Error('full');
    void waiting.turn.then((turn) => turns.push(turn === 'turn' ? name : `${name} closed`));
    return waiting;
  };
  return { turns, wait };
}

describe('slots', () => {
  test('are taken and given back', () => {
    const budget = new Budget({ maxInFlight: 2, maxQueue: 0 });
    expect([budget.tryEnter(), budget.tryEnter(), budget.tryEnter()]).toEqual([true, true, false]);
    expect(budget.inFlight).toBe(2);
    budget.leave();
    expect(budget.tryEnter()).toBe(true);
    budget.leave();
    budget.leave();
    expect(budget.inFlight).toBe(0);
  });

  test('that nobody had cannot be given back', () => {
    const budget = new Budget({ maxInFlight: 2, maxQueue: 1 });
    expect(() => budget.leave()).toThrow('nobody had');
    budget.tryEnter('a');
    expect(() => budget.leave('b')).toThrow('nobody had');
    expect(budget.inFlight).toBe(1);
  });

  test('go to those that wait, first come, first served', async () => {
    const budget = new Budget({ maxInFlight: 1, maxQueue: 3 });
    const { turns, wait } = watch(budget);
    budget.tryEnter();
    wait('a');
    wait('b');
    wait('c');
    expect(budget.wait(undefined)).toBeNull();
    expect(budget.queued).toBe(3);
    budget.leave();
    // The slot is taken on behalf of the one that waited.
    expect([budget.inFlight, budget.queued, budget.tryEnter()]).toEqual([1, 2, false]);
    await settled();
    expect(turns).toEqual(['a']);
    budget.leave();
    budget.leave();
    await settled();
    expect(turns).toEqual(['a', 'b', 'c']);
  });

  test('that are free are had without waiting, also where nothing may wait', async () => {
    const budget = new Budget({ maxInFlight: 1, maxQueue: 0 });
    expect(await budget.wait('a')!.turn).toBe('turn');
    expect([budget.inFlight, budget.queued]).toEqual([1, 0]);
    expect(budget.wait('a')).toBeNull();
    budget.leave('a');
    expect(budget.tryEnter('a')).toBe(true);
  });
});

describe('keys', () => {
  test('one at a time, in order, and others pass', async () => {
    const budget = new Budget({ maxInFlight: 2, maxQueue: 10 });
    const { turns, wait } = watch(budget);
    expect(budget.tryEnter('k')).toBe(true);
    expect(budget.tryEnter('k')).toBe(false);
    wait('k1', 'k');
    wait('k2', 'k');
    // A slot is free, and those before it wait for their key.
    expect(budget.tryEnter('other')).toBe(true);
    wait('plain');
    budget.leave('other');
    await settled();
    expect(turns).toEqual(['plain']);
    budget.leave('k');
    budget.leave('k');
    await settled();
    expect(turns).toEqual(['plain', 'k1', 'k2']);
  });

  test('the oldest that could run is next, with or without key', async () => {
    const budget = new Budget({ maxInFlight: 1, maxQueue: 10 });
    const { turns, wait } = watch(budget);
    budget.tryEnter('k');
    wait('k1', 'k');
    wait('plain');
    wait('j1', 'j');
    wait('k2', 'k');
    wait('last');
    for (const key of ['k', 'k', undefined, 'j', 'k']) {
      budget.leave(key);
      await settled();
    }
    expect(turns).toEqual(['k1', 'plain', 'j1', 'k2', 'last']);
  });

  test('a key is forgotten when nobody has it', async () => {
    const budget = new Budget({ maxInFlight: 1, maxQueue: 10 });
    for (let index = 0; index < 1_000; index += 1) {
      const key = `k${index}`;
      budget.tryEnter(key);
      const waiting = budget.wait(key)!;
      waiting.cancel();
      budget.leave(key);
    }
    const { keys } = budget as unknown as { keys: Map<string, unknown> };
    expect(keys.size).toBe(0);
  });

  test('__proto__ is a key like any other', () => {
    const budget = new Budget({ maxInFlight: 2, maxQueue: 1 });
    expect(budget.tryEnter('__proto__')).toBe(true);
    expect(budget.tryEnter('__proto__')).toBe(false);
    expect(budget.tryEnter('')).toBe(true);
    budget.leave('');
    budget.leave('__proto__');
    expect(budget.inFlight).toBe(0);
  });
});

describe('who gives up', () => {
  test('waiting, leaves the queue', async () => {
    const budget = new Budget({ maxInFlight: 1, maxQueue: 10 });
    const { turns, wait } = watch(budget);
    budget.tryEnter();
    const first = wait('a', 'k');
    wait('b', 'k');
    first.cancel();
    first.cancel();
    expect(budget.queued).toBe(1);
    budget.leave();
    await settled();
    expect(turns).toEqual(['a closed', 'b']);
    first.cancel();
    expect(budget.inFlight).toBe(1);
  });

  test('after its turn was given, gives the slot back once', async () => {
    const budget = new Budget({ maxInFlight: 1, maxQueue: 10 });
    const { turns, wait } = watch(budget);
    budget.tryEnter('k');
    const first = wait('a', 'k');
    wait('b', 'k');
    budget.leave('k');
    // Granted, and nobody has seen it yet.
    first.cancel();
    first.cancel();
    expect([budget.inFlight, budget.queued]).toEqual([1, 0]);
    await settled();
    expect(turns).toEqual(['a', 'b']);
    budget.leave('k');
    expect(budget.inFlight).toBe(0);
  });

  test('again and again leaves nothing behind', () => {
    const budget = new Budget({ maxInFlight: 1, maxQueue: 10 });
    budget.tryEnter();
    for (let index = 0; index < 1_000; index += 1) budget.wait(`k${index}`)!.cancel();
    const { ready } = budget as unknown as { ready: { items: unknown[] } };
    expect(ready.items).toEqual([]);
  });
});

describe('the end', () => {
  test('all waiting ends, slots are still given back', async () => {
    const budget = new Budget({ maxInFlight: 2, maxQueue: 10 });
    const { turns, wait } = watch(budget);
    budget.tryEnter('k');
    budget.tryEnter();
    wait('a');
    const keyed = wait('b', 'k');
    wait('c', 'j');
    budget.close();
    budget.close();
    keyed.cancel();
    await settled();
    expect(turns.sort()).toEqual(['a closed', 'b closed', 'c closed']);
    expect([budget.queued, budget.inFlight]).toEqual([0, 2]);
    expect(budget.tryEnter()).toBe(false);
    expect(await budget.wait(undefined)!.turn).toBe('closed');
    budget.leave('k');
    budget.leave();
    expect([budget.inFlight, budget.tryEnter()]).toEqual([0, false]);
  });
});

describe('against a model', () => {
  type Step =
    | { readonly do: 'enter' | 'wait'; readonly key: string | undefined }
    | { readonly do: 'leave' | 'cancel' | 'cancelGranted'; readonly pick: number }
    | { readonly do: 'close' };

  interface Call {
    readonly id: number;
    readonly key: string | undefined;
  }

  /** All rules of the budget, in the simplest words. */
  class Model {
    readonly maxInFlight: number;
    running: Call[] = [];
    queue: Call[] = [];
    readonly turns: string[] = [];
    isClosed = false;

    constructor(maxInFlight: number) {
      this.maxInFlight = maxInFlight;
    }

    canRun({ key }: Pick<Call, 'key'>): boolean {
      const isKeyFree = key === undefined || this.running.every((call) => call.key !== key);
      return isKeyFree && this.running.length < this.maxInFlight;
    }

    serve(): void {
      for (let next = this.queue.find((call) => this.canRun(call)); next !== undefined; ) {
        this.queue = this.queue.filter((call) => call !== next);
        this.running.push(next);
        this.turns.push(`${next.id} turn`);
        next = this.queue.find((call) => this.canRun(call));
      }
    }

    leave(id: number): void {
      this.running = this.running.filter((call) => call.id !== id);
      this.serve();
    }
  }

  const key = fc.oneof(
    { weight: 2, arbitrary: fc.constant(undefined) },
    { weight: 3, arbitrary: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f') },
  );
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 3, arbitrary: fc.record({ do: fc.constant('enter' as const), key }) },
    { weight: 8, arbitrary: fc.record({ do: fc.constant('wait' as const), key }) },
    { weight: 6, arbitrary: fc.record({ do: fc.constant('leave' as const), pick: fc.nat(1_000) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('cancel' as const), pick: fc.nat(1_000) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('cancelGranted' as const), pick: fc.nat(1_000) }) },
  );
  const script = fc.record({
    maxInFlight: fc.integer({ min: 1, max: 4 }),
    maxQueue: fc.integer({ min: 0, max: 12 }),
    steps: fc.array(step, { maxLength: 120, size: 'max' }),
    closes: fc.boolean(),
  });

  test('the same turns in the same order, and no slot is lost', async () => {
    await fc.assert(
      fc.asyncProperty(script, async ({ maxInFlight, maxQueue, steps, closes }) => {
        const budget = new Budget({ maxInFlight, maxQueue });
        const model = new Model(maxInFlight);
        const turns: string[] = [];
        const waitings = new Map<number, Waiting>();
        let calls = 0;

        const take = (one: Step): void => {
          switch (one.do) {
            case 'enter': {
              const call = { id: calls++, key: one.key };
              // Nobody that could run waits, so whoever can run passes nobody.
              expect(model.queue.some((waiting) => model.canRun(waiting))).toBe(false);
              const enters = !model.isClosed && model.canRun(call);
              expect(budget.tryEnter(one.key)).toBe(enters);
              if (enters) model.running.push(call);
              return;
            }
            case 'wait': {
              const call = { id: calls++, key: one.key };
              const isFull = !model.canRun(call) && model.queue.length >= maxQueue;
              const waiting = budget.wait(one.key);
              expect(waiting === null).toBe(isFull && !model.isClosed);
              if (waiting === null) return;
              waitings.set(call.id, waiting);
              void waiting.turn.then((turn) => turns.push(`${call.id} ${turn}`));
              if (model.isClosed) model.turns.push(`${call.id} closed`);
              else {
                model.queue.push(call);
                model.serve();
              }
              return;
            }
            case 'leave': {
              const call = model.running[one.pick % Math.max(model.running.length, 1)];
              if (call === undefined) return;
              budget.leave(call.key);
              waitings.delete(call.id);
              model.leave(call.id);
              return;
            }
            case 'cancel': {
              const call = model.queue[one.pick % Math.max(model.queue.length, 1)];
              if (call === undefined) return;
              waitings.get(call.id)!.cancel();
              model.queue = model.queue.filter((other) => other !== call);
              model.turns.push(`${call.id} closed`);
              return;
            }
            case 'cancelGranted': {
              const granted = model.running.filter(({ id }) => waitings.has(id));
              const call = granted[one.pick % Math.max(granted.length, 1)];
              if (call === undefined) return;
              waitings.get(call.id)!.cancel();
              waitings.get(call.id)!.cancel();
              model.leave(call.id);
              return;
            }
            case 'close':
              budget.close();
              model.isClosed = true;
              for (const { id } of model.queue) model.turns.push(`${id} closed`);
              model.queue = [];
          }
        };
        // Thousands of times a run: compared here, said by `expect` only where it is wrong.
        const check = () => {
          const isRight = budget.inFlight === model.running.length && budget.queued === model.queue.length;
          if (isRight && budget.inFlight <= maxInFlight) return;
          expect([budget.inFlight, budget.queued]).toEqual([model.running.length, model.queue.length]);
          expect(budget.inFlight).toBeLessThanOrEqual(maxInFlight);
        };

        for (const one of steps) {
          take(one);
          check();
        }
        if (closes) {
          take({ do: 'close' });
          for (const one of steps.slice(0, 10)) take(one);
          check();
        }
        // Everybody leaves in the end: everybody had a turn, and nothing is left.
        while (model.running.length > 0) {
          take({ do: 'leave', pick: 0 });
          check();
        }
        expect([budget.queued, budget.inFlight]).toEqual([0, 0]);
        await settled();
        // Closing ends all at once, in no order.
        const inOrder = (list: readonly string[]) => list.filter((turn) => turn.endsWith('turn'));
        expect(inOrder(turns)).toEqual(inOrder(model.turns));
        expect([...turns].sort()).toEqual([...model.turns].sort());
        const { keys, ready } = budget as unknown as {
          keys: Map<string, unknown>;
          ready: { items: unknown[] };
        };
        expect([keys.size, ready.items.length]).toEqual([0, 0]);
      }),
      { numRuns: 400 },
    );
  });
});
