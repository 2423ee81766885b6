import { expect, test } from 'vitest';
import { Pauses } from '../../../src/host/auth/pauses.js';
import { createSimulatedClock } from '../../../src/testing/clock.js';

function begun() {
  const clock = createSimulatedClock();
  const pauses = new Pauses(clock);
  /** How long it takes until the same may begin, in whole seconds. */
  const waited = (wanted = 'it'): number => {
    let seconds = 0;
    for (; !pauses.mayBegin(wanted); seconds += 1) clock.advance(1000);
    return seconds;
  };
  return { clock, pauses, waited };
}

test('what failed is tried again after a second, then after ever longer, up to a minute', () => {
  const { pauses, waited } = begun();
  const pausesMade = Array.from({ length: 9 }, () => {
    pauses.failed('it');
    return waited();
  });
  expect(pausesMade).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60]);
});

test('something else may be tried at once, a few times', () => {
  const { pauses } = begun();
  for (const wanted of ['one', 'two', 'three']) {
    expect(pauses.mayBegin(wanted)).toBe(true);
    pauses.failed(wanted);
    expect(pauses.mayBegin(wanted)).toBe(false);
  }
  expect(pauses.mayBegin('four')).toBe(false);
});

test('ends with a success, and when somebody acts', () => {
  const { pauses } = begun();
  for (const over of [() => pauses.granted(), () => pauses.clear()]) {
    pauses.failed('it');
    expect(pauses.mayBegin('it')).toBe(false);
    over();
    expect(pauses.mayBegin('it')).toBe(true);
  }
});

test('what is granted again and again at once is worth nothing', () => {
  const { pauses, waited } = begun();
  const pausesMade = Array.from({ length: 11 }, (_, n) => {
    pauses.granted();
    return waited(`token ${n}`);
  });
  expect(pausesMade).toEqual([0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
});

test('tokens that are merely short-lived are renewed without a pause', () => {
  const { clock, pauses } = begun();
  for (let n = 0; n < 50; n += 1) {
    expect(pauses.mayBegin(`token ${n}`)).toBe(true);
    pauses.granted();
    clock.advance(5000);
  }
});
