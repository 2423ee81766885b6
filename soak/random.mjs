// Everything random in a soak comes from one seed.

/** A small generator of 32-bit numbers (a Weyl sequence through an integer hash); good enough for dice. */
export function createRandom(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x9e3779b9) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    /** An integer from 0 to `limit` - 1. */
    below: (limit) => Math.floor(next() * limit),
    /** An integer, both ends included. */
    between: (low, high) => low + Math.floor(next() * (high - low + 1)),
    chance: (probability) => next() < probability,
    pick: (list) => list[Math.floor(next() * list.length)],
  };
}

/** A picker of keys by weight: `weighted({a: 3, b: 1})(random)` is `a` three times out of four. */
export function weighted(weights) {
  const entries = Object.entries(weights);
  const total = entries.reduce((sum, [, weight]) => sum + weight, 0);
  return (random) => {
    let left = random.next() * total;
    for (const [key, weight] of entries) {
      left -= weight;
      if (left < 0) return key;
    }
    return entries[entries.length - 1][0];
  };
}
