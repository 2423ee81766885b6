/** The heap of those that wait for a slot alone, with what is taken out of its middle. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { Waiter, WaiterHeap, WaiterList } from '../../src/calls/budgetQueue.js';

const orders = fc.uniqueArray(fc.nat(1_000), { minLength: 1, maxLength: 60, size: 'max' });
const picks = fc.array(fc.nat(1_000), { maxLength: 40, size: 'max' });

test('the heap gives the oldest first, whoever was taken out before', () => {
  fc.assert(
    fc.property(orders, picks, (given, taken) => {
      const heap = new WaiterHeap();
      const waiters = given.map((order) => new Waiter('k', order));
      for (const waiter of waiters) heap.push(waiter);
      const left = new Set(waiters);
      for (const pick of taken) {
        const waiter = waiters[pick % waiters.length]!;
        heap.remove(waiter);
        left.delete(waiter);
      }
      const drained: number[] = [];
      for (let { first } = heap; first !== null; first = heap.first) {
        drained.push(first.order);
        heap.remove(first);
      }
      expect(drained).toEqual([...left].map(({ order }) => order).sort((one, other) => one - other));
    }),
    { numRuns: 1_000 },
  );
});

test('the list keeps order, whoever is taken out', () => {
  fc.assert(
    fc.property(orders, picks, (given, taken) => {
      const list = new WaiterList();
      const waiters = given.map((order) => new Waiter(undefined, order));
      for (const waiter of waiters) list.push(waiter);
      const left = new Set(waiters);
      for (const pick of taken) {
        const waiter = waiters[pick % waiters.length]!;
        if (left.delete(waiter)) list.remove(waiter);
      }
      const late = new Waiter(undefined, 2_000);
      list.push(late);
      const seen: Waiter[] = [];
      for (let { head } = list; head !== null; head = list.head) {
        seen.push(head);
        list.remove(head);
      }
      expect(seen).toEqual([...left, late]);
    }),
    { numRuns: 500 },
  );
});
