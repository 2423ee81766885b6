/**
 * Starts peers a few at a time, at first and after a loss: a hundred processes at once would make each other miss their
 * deadlines.
 */
export class StartQueue {
  private readonly waiting: { readonly name: string; readonly start: () => void }[] = [];
  private readonly running = new Set<string>();
  private readonly atOnce: number;

  constructor(atOnce: number) {
    this.atOnce = atOnce;
  }

  add(name: string, start: () => void): void {
    this.done(name);
    this.waiting.push({ name, start });
    this.next();
  }

  /** The peer is through with its start, or gone. */
  done(name: string): void {
    const index = this.waiting.findIndex((entry) => entry.name === name);
    if (index >= 0) this.waiting.splice(index, 1);
    if (this.running.delete(name)) this.next();
  }

  clear(): void {
    this.waiting.length = 0;
  }

  private next(): void {
    while (this.running.size < this.atOnce) {
      const entry = this.waiting.shift();
      if (entry === undefined) return;
      this.running.add(entry.name);
      entry.start();
    }
  }
}
