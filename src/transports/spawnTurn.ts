/**
 * One process a turn of the event loop. Starting one blocks the loop for tens to hundreds of milliseconds on a busy
 * machine; a burst of them would hold up every timer and every answer of the host, and deadlines would pass in an
 * order that nobody meant.
 */
let free: Promise<void> = Promise.resolve();

/** Resolves when it is the caller's turn to start a process. */
export function spawnTurn(): Promise<void> {
  const turn = free;
  free = turn.then(
    () =>
      new Promise((resolve) => {
        setImmediate(resolve);
      }),
  );
  return turn;
}
