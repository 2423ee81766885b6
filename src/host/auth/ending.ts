/** The end of something, which promises are given up at. No signal: a hundred may wait, and Node warns of eleven. */
export class Ending {
  readonly #waiting = new Set<() => void>();
  #isOver = false;

  get isOver(): boolean {
    return this.#isOver;
  }

  end(): void {
    this.#isOver = true;
    for (const giveUp of [...this.#waiting]) giveUp();
  }

  /** Rejects with {@link Ended} at the end; what becomes of the promise after that disturbs nobody. */
  until<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.#waiting.delete(giveUp);
        reject(new Ended());
      };
      if (this.#isOver) giveUp();
      else this.#waiting.add(giveUp);
      promise.then(
        (value) => {
          this.#waiting.delete(giveUp);
          resolve(value);
        },
        (error: unknown) => {
          this.#waiting.delete(giveUp);
          reject(error);
        },
      );
    });
  }
}

export class Ended extends Error {}
