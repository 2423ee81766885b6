/** The end of a session, told to its server (2025-11-25, basic/transports, "Session Management"). */
import type { Dispatcher } from 'undici';
import type { Clock } from './clock.js';
import { withCredentials } from './httpCredentials.js';
import type { GetContext } from './httpGet.js';

/** A courtesy: whoever closes is not kept waiting for it. */
const TIMEOUT_MS = 1000;

/** Sends DELETE. Resolves when it was answered, whatever the answer, and after a moment in any case. */
export function endSession(
  { target, authorizer, pool }: GetContext,
  headers: Readonly<Record<string, string>>,
  clock: Clock,
): Promise<void> {
  return new Promise((resolve) => {
    let isOver = false;
    const done = () => {
      isOver = true;
      clock.clearTimeout(timer);
      resolve();
    };
    const timer = clock.setTimeout(done, TIMEOUT_MS);
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: () => {},
      onResponseStart: (_controller, status) => {
        if (status >= 200) done();
      },
      onResponseError: done,
    };
    withCredentials(authorizer, { method: 'DELETE', url: target.url }, (credentials) => {
      if (isOver) return;
      pool.dispatch(
        {
          caller: { line: null },
          path: target.path,
          method: 'DELETE',
          headers: credentials === null ? headers : { ...headers, ...credentials.headers },
          headersTimeout: 0,
          bodyTimeout: 0,
        },
        handler,
      );
    });
  });
}
