/** Scripts played in memory, on a pipe or over per-request streams. */
import type { CloseCause, UnreachableCause } from '../protocol/exchange.js';
import type { Clock } from '../transports/clock.js';
import { type MemoryControl, type MemoryPeer, memoryTransport } from '../transports/memory.js';
import type { OpenResult, StreamEnd, TransportFactory } from '../transports/transport.js';
import type { HttpAnswer, LifeScript, Opening, Script } from './script.js';
import { ScriptPlayer, type Stage } from './scriptPlayer.js';

export interface ScriptedOptions {
  /** The clock of the host, so that one hand moves both. */
  readonly clock: Clock;
  /** As over HTTP. Default false: a pipe. */
  readonly perRequestStreams?: boolean;
  /** Default 16 MiB. */
  readonly maxMessageBytes?: number;
}

/** A transport whose far side plays `script`. Each call gives a far side of its own, with its lives still before it. */
export function scriptedTransport(script: Script, options: ScriptedOptions): TransportFactory {
  const { clock, perRequestStreams = false, maxMessageBytes } = options;
  const nextLife = lives(script);
  return memoryTransport({
    peer: () => scriptedPeer(nextLife(), clock, perRequestStreams),
    perRequestStreams,
    ...(maxMessageBytes === undefined ? {} : { maxMessageBytes }),
  });
}

/** Gives the lives of a script in order, the last one again and again. */
export function lives(script: Script): () => LifeScript {
  let next = 0;
  return () => {
    const life = script.lives[Math.min(next, script.lives.length - 1)];
    next += 1;
    return life ?? { reactions: [] };
  };
}

/** The far side of one connection. */
export function scriptedPeer(life: LifeScript, clock: Clock, perRequestStreams: boolean): MemoryPeer {
  let player: ScriptPlayer | null = null;
  const start = (control: MemoryControl): ScriptPlayer => {
    player ??= new ScriptPlayer(life, memoryStage(control, perRequestStreams), clock);
    return player;
  };
  const { opens, goneAfterMs = 0 } = life;
  const opening = opens === undefined ? null : new ScriptedOpening(opens, clock);
  return {
    ...(opening === null ? {} : { open: () => opening.result }),
    opened: (control) => start(control).opened(),
    receive: (text, _reply, control) => start(control).received(text),
    closed() {
      player?.over();
      opening?.giveUp();
      if (goneAfterMs === 0) return undefined;
      return new Promise<void>((resolve) => void clock.setTimeout(() => resolve(), goneAfterMs));
    },
  };
}

class ScriptedOpening {
  readonly result: Promise<OpenResult>;
  private resolve: (result: OpenResult) => void = () => undefined;
  private readonly clock: Clock;
  private timer: unknown;

  constructor({ afterMs = 0, fails, hangs = false }: Opening, clock: Clock) {
    this.clock = clock;
    this.result = new Promise((resolve) => {
      this.resolve = resolve;
    });
    if (hangs) return;
    const result: OpenResult = fails === undefined ? { ok: true } : { ok: false, cause: unreachable(fails) };
    if (afterMs === 0) this.resolve(result);
    else this.timer = clock.setTimeout(() => this.resolve(result), afterMs);
  }

  /** The connection ended first. One that hangs goes on hanging. */
  giveUp(): void {
    if (this.timer === undefined) return;
    this.clock.clearTimeout(this.timer);
    this.resolve({ ok: false, cause: unreachable('connect-failed') });
  }
}

function memoryStage(control: MemoryControl, perRequestStreams: boolean): Stage {
  return {
    message(text, requestId) {
      if (perRequestStreams && requestId !== null) control.send(text, requestId);
      else control.send(text);
    },
    bytes(chunk) {
      if (!perRequestStreams) control.sendBytes(chunk);
    },
    answer(answer, texts, requestId) {
      if (!perRequestStreams) for (const text of texts) control.send(text);
      else if (requestId !== null) answerHttp(control, answer, texts, requestId);
    },
    end(how, requestId) {
      if (!perRequestStreams || requestId === null) return;
      const redirected = false;
      control.end(
        requestId,
        how === 'complete'
          ? { kind: how, status: 200, redirected }
          : { kind: how, redirected, cause: closeCause('reset') },
      );
    },
    close: (cause) => control.close(closeCause(cause)),
    flow: (what) => control[what](),
  };
}

/** What an HTTP transport makes of an answer (N5, N6): which texts may settle, and how the exchange ends. */
function answerHttp(control: MemoryControl, answer: HttpAnswer, texts: readonly string[], id: number): void {
  const { status, type, redirected = false, text = '' } = answer;
  if (redirected) control.redirected(id);
  const isTyped = type === 'json' || type === 'sse';
  const isGood = status >= 200 && status < 300;
  const isNoSignal = status >= 500 || [407, 408, 421, 425, 429].includes(status);
  const isRedirect = status >= 300 && status < 400;
  const isClientError = status >= 400 && status < 500 && status !== 401 && status !== 403 && !isNoSignal;
  const mayCount = isTyped && (isGood || isClientError);
  for (const one of texts) {
    if (mayCount) control.send(one, id);
    else control.overheard(one);
  }
  if (mayCount && text !== '') control.send(text, id);
  control.end(id, endOf());

  function endOf(): StreamEnd {
    if (status === 401 || status === 403)
      return { kind: 'unauthorized', status, redirected, challenge: null };
    if (isRedirect) return unreachableEnd({ ...unreachable('redirected'), terminal: true, status });
    if (isNoSignal) {
      const { retryAfterMs } = answer;
      return unreachableEnd({
        ...unreachable('http-status'),
        status,
        ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      });
    }
    if (isGood && type === 'html') return unreachableEnd({ ...unreachable('html'), status });
    if (isGood && isTyped) return { kind: 'complete', status, redirected };
    const detail = `HTTP ${status}`;
    if (isGood) return { kind: 'malformed', status, redirected, detail };
    return { kind: 'status', status, redirected, detail, hadSession: false };
  }

  function unreachableEnd(cause: UnreachableCause): StreamEnd {
    return { kind: 'unreachable', redirected, cause };
  }
}

function unreachable(kind: UnreachableCause['kind']): UnreachableCause {
  return { kind, detail: `as the script says: ${kind}`, terminal: false };
}

function closeCause(kind: CloseCause['kind']): CloseCause {
  return { kind, detail: `as the script says: ${kind}` };
}
