/** How many calls of one peer run at once, which run one after the other, and who is next. */
import { Waiter, WaiterHeap, WaiterList } from './budgetQueue.js';

export interface BudgetLimits {
  /** Most calls on the wire at once, at least 1. */
  readonly maxInFlight: number;
  /** Most calls that wait; 0: none. */
  readonly maxQueue: number;
}

/** One call that waits. */
export interface Waiting {
  /**
   * `turn`: the call has a slot now, taken already, and must `leave` once. `closed`: there will be none, since the
   * budget was closed or the waiting cancelled. Never rejects, never stays open past {@link Budget.close}.
   */
  readonly turn: Promise<'turn' | 'closed'>;
  /**
   * Gives the place in the queue up, or the slot, if it was granted already: who cancels must not `leave`, also where
   * `turn` resolved to `turn` meanwhile. Idempotent. Not to be used after `leave`.
   */
  cancel(): void;
}

/** Calls of one key: at most one runs, the others wait in order. */
interface KeyQueue {
  isRunning: boolean;
  readonly waiters: WaiterList;
}

/**
 * First come, first served, among those that could run: a call that waits for its key is overtaken, but not by calls of
 * the same key. After every operation no slot is free that a waiting call could use; so whoever finds a free slot and a
 * free key passes nobody.
 */
export class Budget {
  private readonly limits: BudgetLimits;
  /** Without key, waiting for a slot. */
  private readonly keyless = new WaiterList();
  /** Keys of calls that run or wait; null: one runs and none waits. */
  private readonly keys = new Map<string, KeyQueue | null>();
  /** The first of each key that waits for nothing but a slot. */
  private readonly ready = new WaiterHeap();
  private running = 0;
  private waiting = 0;
  private arrivals = 0;
  private isClosed = false;

  constructor(limits: BudgetLimits) {
    this.limits = limits;
  }

  /** Slots that are taken. */
  get inFlight(): number {
    return this.running;
  }

  /** Calls that wait. */
  get queued(): number {
    return this.waiting;
  }

  /**
   * Takes a slot, if there is one for this key now: one free slot, no call of the same key that runs or waits.
   *
   * @returns whether the slot is taken; then `leave` must be called once, with the same key
   */
  tryEnter(key?: string): boolean {
    if (this.isClosed || this.running >= this.limits.maxInFlight) return false;
    if (key !== undefined) {
      if (this.keys.has(key)) return false;
      this.keys.set(key, null);
    }
    this.running += 1;
    return true;
  }

  /** Gives a slot back to the one that is next. Throws an Error where none was taken: a mistake of the caller. */
  leave(key?: string): void {
    if (this.running === 0) throw new Error('A slot was given back that nobody had.');
    if (key !== undefined) this.freeKey(key);
    this.running -= 1;
    this.serve();
  }

  /**
   * Queues a call. One that could run at once has its turn already.
   *
   * @returns null where the queue is full
   */
  wait(key: string | undefined): Waiting | null {
    const waiter = new Waiter(key, this.arrivals);
    if (this.isClosed) end(waiter);
    else if (this.tryEnter(key)) grant(waiter);
    else if (this.waiting >= this.limits.maxQueue) return null;
    else this.enqueue(waiter);
    return { turn: waiter.turn, cancel: () => this.cancel(waiter) };
  }

  /** Ends all waiting; nobody enters any more. Who has a slot still gives it back. Idempotent. */
  close(): void {
    this.isClosed = true;
    this.endAll(this.keyless);
    for (const [key, queue] of this.keys) {
      if (queue === null) continue;
      this.endAll(queue.waiters);
      if (queue.isRunning) this.keys.set(key, null);
      else this.keys.delete(key);
    }
  }

  private enqueue(waiter: Waiter): void {
    this.arrivals += 1;
    this.waiting += 1;
    const { key } = waiter;
    if (key === undefined) {
      this.keyless.push(waiter);
      return;
    }
    let queue = this.keys.get(key);
    if (queue === undefined || queue === null) {
      queue = { isRunning: queue === null, waiters: new WaiterList() };
      this.keys.set(key, queue);
    }
    queue.waiters.push(waiter);
    this.makeReady(queue);
  }

  /** Grants free slots, the oldest first. */
  private serve(): void {
    while (this.waiting > 0 && this.running < this.limits.maxInFlight) {
      const next = older(this.keyless.head, this.ready.first);
      if (next === null) return;
      this.running += 1;
      this.dequeue(next, true);
      grant(next);
    }
  }

  private cancel(waiter: Waiter): void {
    const { state, key } = waiter;
    if (state === 'waiting') {
      this.dequeue(waiter, false);
      end(waiter);
      // Whoever was behind it in its key has a slot only if there is one: it waited for a slot, so there is none.
    } else if (state === 'granted') {
      waiter.state = 'over';
      this.leave(key);
    }
  }

  /** @param runs whether it leaves the queue in order to run */
  private dequeue(waiter: Waiter, runs: boolean): void {
    this.waiting -= 1;
    const { key } = waiter;
    if (key === undefined) {
      this.keyless.remove(waiter);
      return;
    }
    const queue = this.keys.get(key) as KeyQueue;
    queue.waiters.remove(waiter);
    this.ready.remove(waiter);
    if (runs) queue.isRunning = true;
    this.settleKey(key, queue);
  }

  private freeKey(key: string): void {
    const queue = this.keys.get(key);
    if (queue === undefined || queue?.isRunning === false) {
      throw new Error('A slot was given back for a key that nobody had.');
    }
    if (queue === null) {
      this.keys.delete(key);
      return;
    }
    queue.isRunning = false;
    this.settleKey(key, queue);
  }

  private settleKey(key: string, queue: KeyQueue): void {
    if (queue.waiters.head !== null) this.makeReady(queue);
    else if (queue.isRunning) this.keys.set(key, null);
    else this.keys.delete(key);
  }

  private makeReady({ isRunning, waiters }: KeyQueue): void {
    const { head } = waiters;
    if (!isRunning && head !== null && head.place < 0) this.ready.push(head);
  }

  private endAll(list: WaiterList): void {
    for (let waiter = list.head; waiter !== null; waiter = list.head) {
      list.remove(waiter);
      this.ready.remove(waiter);
      this.waiting -= 1;
      end(waiter);
    }
  }
}

function older(one: Waiter | null, other: Waiter | null): Waiter | null {
  if (one === null || other === null) return one ?? other;
  return one.order < other.order ? one : other;
}

function grant(waiter: Waiter): void {
  waiter.state = 'granted';
  waiter.settle('turn');
}

function end(waiter: Waiter): void {
  waiter.state = 'over';
  waiter.settle('closed');
}
