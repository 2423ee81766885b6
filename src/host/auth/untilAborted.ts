/** A promise that is given up when a signal says so; what becomes of it later disturbs nobody. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(new Aborted());
    if (signal.aborted) giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    const over = (): void => signal.removeEventListener('abort', giveUp);
    promise.then(
      (value) => {
        over();
        resolve(value);
      },
      (error: unknown) => {
        over();
        reject(error);
      },
    );
  });
}

export class Aborted extends Error {}
