// Ends a soak that hangs, also one whose main thread is in an endless loop: hence a thread of its own.

import { writeSync } from 'node:fs';
import { workerData } from 'node:worker_threads';

setTimeout(() => {
  writeSync(1, 'soak: FAILED: it did not end in time\n');
  process.kill(process.pid, 'SIGKILL');
}, workerData.ms);
