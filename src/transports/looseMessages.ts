/** What nobody waits for: notifications and responses. A lost one is noticed by other means than its own. */
import type { Clock } from './clock.js';
import { LooseMessage } from './looseMessage.js';
import type { StreamEnd, Transport } from './transport.js';

/** How long a server may take to accept a notification (HTTP). */
const LOOSE_TIMEOUT_MS = 10_000;

/** Answers to a server's own requests that are on their way at one time: each has a socket (HTTP). */
const MAX_ANSWERS = 64;

/** Those of one connection that are on their way. */
export class LooseMessages {
  private readonly clock: Clock;
  /** With the timers of their deadlines (HTTP). */
  private readonly open = new Map<LooseMessage, unknown>();
  private answers = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Whether one more answer to the server's own requests may be on its way. */
  get mayAnswer(): boolean {
    return this.answers < MAX_ANSWERS;
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
        this.over(message);
        resolve(end);
      });
      if (transport.perRequestStreams) {
        const giveUp = (): void => {
          this.over(message);
          resolve(null);
          try {
            transport.abort(message);
          } catch {
            // As below.
          }
        };
        this.open.set(message, clock.setTimeout(giveUp, LOOSE_TIMEOUT_MS));
        if (method === null) this.answers += 1;
      } else {
        resolve(null);
      }
      try {
        transport.send(text, message);
      } catch {
        // It has broken its contract, and says by itself that the connection is of no use.
        message.onEnd(null);
      }
    });
  }

  private over(message: LooseMessage): void {
    if (!this.open.has(message)) return;
    this.clock.clearTimeout(this.open.get(message));
    this.open.delete(message);
    if (message.method === null) this.answers -= 1;
  }

  /** The connection is over: nobody is kept waiting. */
  end(): void {
    for (const message of [...this.open.keys()]) message.onEnd(null);
  }
}
