/** What nobody waits for: notifications and responses. A lost one is noticed by other means than its own. */
import type { Clock } from './clock.js';
import { LooseMessage } from './looseMessage.js';
import type { StreamEnd, Transport } from './transport.js';

/** How long a server may take to accept a notification (HTTP). */
const LOOSE_TIMEOUT_MS = 10_000;

/** Those of one connection that are on their way. */
export class LooseMessages {
  private readonly clock: Clock;
  /** With the timers of their deadlines (HTTP). */
  private readonly open = new Map<LooseMessage, unknown>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /**
   * Over HTTP it resolves with how its exchange ended; with null after {@link LOOSE_TIMEOUT_MS}, when its stream is
   * closed, and when the connection ends. Over a pipe it resolves at once, with null.
   */
  send(
    transport: Transport,
    text: string,
    method: string | null,
    headers: Readonly<Record<string, string>> | undefined,
  ): Promise<StreamEnd | null> {
    const { clock } = this;
    return new Promise((resolve) => {
      const message = new LooseMessage(method, headers, (end) => {
        clock.clearTimeout(this.open.get(message));
        this.open.delete(message);
        resolve(end);
      });
      if (transport.perRequestStreams) {
        const giveUp = (): void => {
          this.open.delete(message);
          transport.abort(message);
          resolve(null);
        };
        this.open.set(message, clock.setTimeout(giveUp, LOOSE_TIMEOUT_MS));
      } else {
        resolve(null);
      }
      transport.send(text, message);
    });
  }

  /** The connection is over: nobody is kept waiting. */
  end(): void {
    for (const message of [...this.open.keys()]) message.onEnd(null);
  }
}
