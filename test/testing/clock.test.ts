import { describe, expect, it } from 'vitest';
import { createActor, setup } from 'xstate';
import { createSimulatedClock } from '../../src/testing/clock.js';

describe('the simulated clock', () => {
  it('fires in order of due time, then of creation', () => {
    const clock = createSimulatedClock();
    const fired: string[] = [];
    clock.setTimeout(() => fired.push('late'), 20);
    clock.setTimeout(() => fired.push('first of two'), 10);
    clock.setTimeout(() => fired.push('second of two'), 10);
    clock.setTimeout(() => fired.push('early'), 5);
    clock.advance(20);
    expect(fired).toEqual(['early', 'first of two', 'second of two', 'late']);
    expect(clock.now()).toBe(20);
  });

  it('fires timers that timers set, at their own time', () => {
    const clock = createSimulatedClock(100);
    const fired: number[] = [];
    const again = (left: number): void => {
      fired.push(clock.now());
      if (left > 0) clock.setTimeout(() => again(left - 1), 10);
    };
    clock.setTimeout(() => again(5), 10);
    clock.advance(35);
    expect(fired).toEqual([110, 120, 130]);
    expect(clock.now()).toBe(135);
    expect(clock.pendingTimers).toBe(1);
    expect(clock.nextDueMs).toBe(140);
  });

  it('stops one millisecond before a deadline without reaching it', () => {
    const clock = createSimulatedClock();
    let fired = 0;
    clock.setTimeout(() => {
      fired += 1;
    }, 10);
    clock.advance(9);
    expect(fired).toBe(0);
    clock.advance(1);
    expect(fired).toBe(1);
  });

  it('forgets a cleared timer, also when cleared by one due at the same time', () => {
    const clock = createSimulatedClock();
    const fired: string[] = [];
    const handles: unknown[] = [];
    clock.setTimeout(() => {
      fired.push('a');
      for (const handle of handles) clock.clearTimeout(handle);
    }, 10);
    handles.push(
      clock.setTimeout(() => fired.push('b'), 10),
      clock.setTimeout(() => fired.push('c'), 11),
    );
    clock.advance(100);
    expect(fired).toEqual(['a']);
    expect(clock.pendingTimers).toBe(0);
    expect(clock.nextDueMs).toBeNull();
    clock.clearTimeout(handles[0]);
    clock.clearTimeout(undefined);
    clock.clearTimeout(null);
  });

  it('does not go back, and does not loop for ever', () => {
    const clock = createSimulatedClock(50);
    expect(() => clock.advanceTo(49)).toThrow(RangeError);
    expect(() => clock.advance(-1)).toThrow(RangeError);
    expect(() => clock.advance(Number.NaN)).toThrow(RangeError);
    const again = (): void => {
      clock.setTimeout(again, 0);
    };
    again();
    expect(() => clock.advance(1)).toThrow(/1000000 timers/);
    expect(() => clock.runAllTimers(20)).toThrow('20 timers fired, and 1 are left');
  });

  it('runs all timers', () => {
    const clock = createSimulatedClock();
    clock.setTimeout(() => clock.setTimeout(() => {}, 500), 500);
    expect(clock.runAllTimers()).toBe(2);
    expect(clock.now()).toBe(1_000);
    expect(clock.runAllTimers()).toBe(0);
  });

  it('leaves the time at the timer that threw, and can go on', () => {
    const clock = createSimulatedClock();
    let fired = 0;
    clock.setTimeout(() => {
      throw new Error('broken timer');
    }, 10);
    clock.setTimeout(() => {
      fired += 1;
    }, 20);
    expect(() => clock.advance(30)).toThrow('broken timer');
    expect(clock.now()).toBe(10);
    clock.advanceTo(30);
    expect(fired).toBe(1);
  });

  it('shortens a delay that Node would shorten', () => {
    const clock = createSimulatedClock();
    clock.setTimeout(() => {}, 2 ** 31);
    expect(clock.nextDueMs).toBe(1);
    clock.setTimeout(() => {}, Number.NaN);
    expect(clock.nextDueMs).toBe(0);
  });

  it('lets a timer move the clock', () => {
    const clock = createSimulatedClock();
    const fired: number[] = [];
    clock.setTimeout(() => clock.advance(50), 10);
    clock.setTimeout(() => fired.push(clock.now()), 20);
    clock.advance(15);
    expect(fired).toEqual([20]);
    expect(clock.now()).toBe(60);
  });

  it('drives a chart through timers that start timers', () => {
    const clock = createSimulatedClock();
    const chart = setup({}).createMachine({
      initial: 'a',
      states: { a: { after: { 10: 'b' } }, b: { after: { 10: 'c' } }, c: {} },
    });
    const actor = createActor(chart, { clock }).start();
    clock.advance(19);
    expect(actor.getSnapshot().value).toBe('b');
    clock.advance(1);
    expect(actor.getSnapshot().value).toBe('c');
    expect(clock.pendingTimers).toBe(0);
  });
});
