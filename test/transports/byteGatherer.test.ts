import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createByteGatherer } from '../../src/transports/byteGatherer.js';

test('everything comes back in order, and each time anew', () => {
  const size = fc.oneof(
    fc.nat(40),
    fc.integer({ min: 4090, max: 4100 }),
    fc.integer({ min: 16_000, max: 17_000 }),
  );
  const gatherer = createByteGatherer();
  fc.assert(
    fc.property(fc.array(size, { maxLength: 40 }), (sizes) => {
      const pieces = sizes.map((length, index) => Buffer.alloc(length, index + 1));
      for (const piece of pieces) gatherer.add(piece);
      const whole = Buffer.concat(pieces);
      expect(gatherer.size).toBe(whole.length);
      expect(gatherer.take().equals(whole)).toBe(true);
      expect(gatherer.size).toBe(0);
    }),
  );
});

test('a lone piece is not copied', () => {
  const gatherer = createByteGatherer();
  const piece = Buffer.from('x');
  gatherer.add(piece);
  expect(gatherer.take()).toBe(piece);
  expect(gatherer.take().length).toBe(0);
});
