import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { ignoreAbort, listenToAbort } from '../../src/transports/abortFanout.js';

function counted() {
  let calls = 0;
  return {
    aborted: () => {
      calls += 1;
    },
    calls: () => calls,
  };
}

const listenersOf = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

describe('a signal', () => {
  it('has one listener however many wait, and none when nobody does', () => {
    const { signal } = new AbortController();
    const listeners = Array.from({ length: 100 }, counted);
    for (const listener of listeners) listenToAbort(signal, listener);
    expect(listenersOf(signal)).toBe(1);
    for (const listener of listeners) {
      ignoreAbort(signal, listener);
      ignoreAbort(signal, listener);
    }
    expect(listenersOf(signal)).toBe(0);
    listenToAbort(signal, listeners[0]!);
    expect(listenersOf(signal)).toBe(1);
  });

  it('calls each that waits once, and keeps nobody', () => {
    const controller = new AbortController();
    const { signal } = controller;
    const stays = counted();
    const leaves = counted();
    const takesItAlong = {
      aborted: () => ignoreAbort(signal, leaves),
    };
    for (const listener of [stays, takesItAlong, leaves]) listenToAbort(signal, listener);
    controller.abort();
    controller.abort();
    expect([stays.calls(), leaves.calls(), listenersOf(signal)]).toEqual([1, 0, 0]);
  });

  it('is no other signal', () => {
    const one = new AbortController();
    const other = new AbortController();
    const listener = counted();
    listenToAbort(one.signal, listener);
    listenToAbort(other.signal, listener);
    ignoreAbort(one.signal, listener);
    one.abort();
    expect(listener.calls()).toBe(0);
    other.abort();
    expect(listener.calls()).toBe(1);
  });
});
