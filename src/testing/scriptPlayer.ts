/** Plays one life of a script to a client that is reached through a {@link Stage}. */
import type { CloseCause } from '../protocol/exchange.js';
import { isJsonObject, type JsonValue } from '../protocol/jsonRpc.js';
import type { Clock } from '../transports/clock.js';
import {
  type HttpAnswer,
  type KnownIds,
  type LifeScript,
  type Reaction,
  type Step,
  writeMessage,
} from './script.js';

/** What a player can do to its client: the one thing to write for a transport of one's own. */
export interface Stage {
  /** One whole message. `requestId`: the request in whose answer stream it goes, where there are such streams. */
  message(text: string, requestId: number | null): void;
  /** Bytes on a pipe; without pipes nothing. */
  bytes(chunk: Buffer): void;
  /** A whole HTTP answer, its messages written out; on a pipe the messages alone. */
  answer(answer: HttpAnswer, texts: readonly string[], requestId: number | null): void;
  /** Ends an answer stream; on a pipe nothing. */
  end(how: 'complete' | 'broken', requestId: number | null): void;
  close(cause: CloseCause['kind']): void;
  flow(what: 'hold' | 'release'): void;
}

export class ScriptPlayer {
  private readonly stage: Stage;
  private readonly clock: Clock;
  private readonly left: { readonly reaction: Reaction; times: number }[];
  private readonly timers = new Set<unknown>();
  private probe = 0;
  private initialize = 0;
  private isOver = false;

  constructor(life: LifeScript, stage: Stage, clock: Clock) {
    this.stage = stage;
    this.clock = clock;
    this.left = life.reactions.map((reaction) => ({
      reaction,
      times: reaction.times ?? Number.POSITIVE_INFINITY,
    }));
  }

  /** The connection is open. */
  opened(): void {
    this.react('open', undefined);
  }

  /** The client wrote a message. */
  received(text: string): void {
    const message = JSON.parse(text) as JsonValue;
    if (!isJsonObject(message)) return;
    const { method, id } = message;
    if (method === 'server/discover' && typeof id === 'number') this.probe = id;
    if (method === 'initialize' && typeof id === 'number') this.initialize = id;
    this.react(typeof method === 'string' ? method : 'response', id);
  }

  /** The connection is over: nothing more is done, no timer is left. */
  over(): void {
    this.isOver = true;
    for (const timer of this.timers) this.clock.clearTimeout(timer);
    this.timers.clear();
  }

  private react(what: string, id: JsonValue | undefined): void {
    const found = this.left.find(({ reaction, times }) => times > 0 && fits(reaction.on, what));
    if (found === undefined) return;
    found.times -= 1;
    const ids: KnownIds = { id, probe: this.probe, initialize: this.initialize };
    for (const step of found.reaction.steps) {
      const { afterMs = 0 } = step;
      if (afterMs === 0) this.act(step, ids);
      else this.later(afterMs, () => this.act(step, ids));
    }
  }

  private later(afterMs: number, act: () => void): void {
    if (this.isOver) return;
    const timer = this.clock.setTimeout(() => {
      this.timers.delete(timer);
      act();
    }, afterMs);
    this.timers.add(timer);
  }

  private act(step: Step, ids: KnownIds): void {
    if (this.isOver) return;
    const { stage } = this;
    const requestId = typeof ids.id === 'number' ? ids.id : null;
    if ('say' in step) this.say(step, writeMessage(step.say, ids), requestId);
    else if ('bytes' in step) {
      for (let left = step.repeat ?? 1; left > 0; left -= 1) stage.bytes(Buffer.from(step.bytes, 'base64'));
    } else if ('http' in step) {
      const texts = (step.http.body ?? []).map((message) => writeMessage(message, ids));
      stage.answer(step.http, texts, requestId);
    } else if ('ends' in step) stage.end(step.ends, requestId);
    else if ('closes' in step) stage.close(step.closes);
    else stage.flow(step.pipe);
  }

  private say(step: Extract<Step, { say: JsonValue }>, text: string, requestId: number | null): void {
    const { cut, lineEnd, outside } = step;
    if (cut === undefined && lineEnd === undefined) {
      this.stage.message(text, outside === true ? null : requestId);
      return;
    }
    const bytes = Buffer.from(text + (lineEnd ?? '\n'));
    let from = 0;
    for (const size of cut ?? []) {
      this.stage.bytes(bytes.subarray(from, from + size));
      from += size;
    }
    this.stage.bytes(bytes.subarray(from));
  }
}

function fits(on: string, what: string): boolean {
  return on === what || (on === '*' && what !== 'open');
}
