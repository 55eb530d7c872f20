// Numbers that look random and come again for the same seed.

/** Marsaglia's xorshift with 32 bits ("Xorshift RNGs", 2003). */
export class Random {
  /** @param {number} seed a whole number */
  constructor(seed) {
    this.state = (seed * 2_654_435_761 + 1) >>> 0 || 1;
  }

  /** A number from 0 up to 1, without 1. */
  next() {
    let x = this.state;
    x ^= x << 13;
    x >>>= 0;
    x ^= x >>> 17;
    x ^= x << 5;
    this.state = x >>> 0;
    return this.state / 2 ** 32;
  }

  /** A whole number from `least` to `most`. */
  whole(least, most) {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  /** @template T @param {T[]} all not empty @returns {T} */
  one(all) {
    return all[this.whole(0, all.length - 1)];
  }
}
