// Medians, spreads and ratios. The unit of replication is one run of one arm, never one request.
// Ratios are paired by round (both arms ran within the same minute) and get a Student interval on the
// logarithms: a percentile bootstrap under-covers badly with as few as five rounds.

/** Two-sided 95 % points of Student's t by degrees of freedom, 1 to 30. */
const STUDENT_95 = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11, 2.101,
  2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/** Linear interpolation between order statistics; `values` need not be sorted. */
export function quantile(values, q) {
  if (values.length === 0) return NaN;
  const sorted = Float64Array.from(values).sort();
  const position = (sorted.length - 1) * q;
  const low = Math.floor(position);
  const high = Math.ceil(position);
  return sorted[low] + (sorted[high] - sorted[low]) * (position - low);
}

/** @returns {number} */
export const median = (values) => quantile(values, 0.5);

/** Median with its spread over the rounds. */
export function spread(values) {
  const clean = values.filter(Number.isFinite);
  return {
    n: clean.length,
    median: median(clean),
    min: clean.length > 0 ? Math.min(...clean) : NaN,
    max: clean.length > 0 ? Math.max(...clean) : NaN,
    iqr: quantile(clean, 0.75) - quantile(clean, 0.25),
  };
}

/**
 * Ratio of two arms measured in the same rounds.
 * @param {Map<number, number>} numerator value by round
 * @param {Map<number, number>} denominator value by round
 * @returns {null | {n: number, ratio: number, low: number | null, high: number | null}} geometric mean ratio and its 95 % interval
 */
export function pairedRatio(numerator, denominator) {
  const logs = [];
  for (const [round, value] of numerator) {
    const other = denominator.get(round);
    if (value > 0 && other > 0) logs.push(Math.log(value / other));
  }
  if (logs.length === 0) return null;
  const mean = logs.reduce((sum, x) => sum + x, 0) / logs.length;
  if (logs.length < 3) return { n: logs.length, ratio: Math.exp(mean), low: null, high: null };
  const variance = logs.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (logs.length - 1);
  const half = (STUDENT_95[logs.length - 2] ?? 1.96) * Math.sqrt(variance / logs.length);
  return { n: logs.length, ratio: Math.exp(mean), low: Math.exp(mean - half), high: Math.exp(mean + half) };
}

/** Small seeded generator (mulberry32), so that the order of a recorded run can be repeated. */
export function seededRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Fisher–Yates on a copy. */
export function shuffled(items, random) {
  const copy = [...items];
  for (let i = copy.length - 1; i > 0; i -= 1) {
    const j = Math.floor(random() * (i + 1));
    [copy[i], copy[j]] = [copy[j], copy[i]];
  }
  return copy;
}

/** Percentiles that a latency sample of this size supports: p99 needs 1,000 values, p99.9 needs 10,000. */
export function latencySummary(microseconds) {
  const n = microseconds.length;
  const ms = (q) => quantile(microseconds, q) / 1000;
  return {
    n,
    p50: n > 0 ? ms(0.5) : null,
    p90: n >= 100 ? ms(0.9) : null,
    p99: n >= 1000 ? ms(0.99) : null,
    p999: n >= 10000 ? ms(0.999) : null,
    max: n > 0 ? ms(1) : null,
    over15ms: microseconds.filter((us) => us > 15_000).length,
    over50ms: microseconds.filter((us) => us > 50_000).length,
  };
}
