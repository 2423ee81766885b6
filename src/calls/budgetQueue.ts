/** The places where calls wait for their turn: a list in order of arrival, and a heap by order of arrival. */

/** One that waits. Made by the budget alone. */
export class Waiter {
  readonly key: string | undefined;
  /** Position in the order of arrival. */
  readonly order: number;
  /** `waiting` until it is granted a slot; then `granted`; `over` once nothing can change any more. */
  state: 'waiting' | 'granted' | 'over' = 'waiting';
  readonly turn: Promise<'turn' | 'closed'>;
  readonly settle: (outcome: 'turn' | 'closed') => void;
  /** Neighbours in its list. */
  before: Waiter | null = null;
  after: Waiter | null = null;
  /** Index in the heap; -1 where it is not in it. */
  place = -1;

  constructor(key: string | undefined, order: number) {
    this.key = key;
    this.order = order;
    let settle: Waiter['settle'] | undefined;
    this.turn = new Promise((resolve) => {
      settle = resolve;
    });
    this.settle = settle!;
  }
}

/** In order of arrival. Every operation is O(1), also taking one out of the middle. */
export class WaiterList {
  head: Waiter | null = null;
  private tail: Waiter | null = null;

  push(waiter: Waiter): void {
    waiter.before = this.tail;
    if (this.tail === null) this.head = waiter;
    else this.tail.after = waiter;
    this.tail = waiter;
  }

  remove(waiter: Waiter): void {
    const { before, after } = waiter;
    if (before === null) this.head = after;
    else before.after = after;
    if (after === null) this.tail = before;
    else after.before = before;
    waiter.before = null;
    waiter.after = null;
  }
}

/** Those that came first, first, although they come in any order. O(log n). */
export class WaiterHeap {
  private readonly items: Waiter[] = [];

  get first(): Waiter | null {
    return this.items[0] ?? null;
  }

  push(waiter: Waiter): void {
    this.put(waiter, this.items.length);
    this.rise(waiter);
  }

  /** Does nothing where it is not in here. */
  remove(waiter: Waiter): void {
    const { place } = waiter;
    if (place < 0) return;
    waiter.place = -1;
    const last = this.items.pop() as Waiter;
    if (last === waiter) return;
    this.put(last, place);
    this.rise(last);
    this.sink(last);
  }

  private rise(waiter: Waiter): void {
    while (waiter.place > 0) {
      const from = waiter.place;
      const parent = this.items[(from - 1) >> 1] as Waiter;
      if (parent.order < waiter.order) return;
      this.put(waiter, parent.place);
      this.put(parent, from);
    }
  }

  private sink(waiter: Waiter): void {
    for (;;) {
      const from = waiter.place;
      const left = this.items[2 * from + 1];
      const right = this.items[2 * from + 2];
      const child = right !== undefined && left !== undefined && right.order < left.order ? right : left;
      if (child === undefined || waiter.order < child.order) return;
      this.put(waiter, child.place);
      this.put(child, from);
    }
  }

  private put(waiter: Waiter, place: number): void {
    this.items[place] = waiter;
    waiter.place = place;
  }
}
