// Numbers and words as readers see them.

import type { Scalar } from './document';

/** Three significant digits, thousands grouped, no trailing zeros: 0.0123, 4.56, 78.9, 12,345. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString('en');
  return value.toLocaleString('en', { maximumSignificantDigits: 3 });
}

/** A number with its unit; milliseconds become µs or s where that is easier to read. */
export function quantity(value: number, unit: string): string {
  if (unit === 'ms') {
    if (Math.abs(value) >= 10_000) return `${number(value / 1000)} s`;
    if (value !== 0 && Math.abs(value) < 0.1) return `${number(value * 1000)} µs`;
  }
  if (unit === 'bytes') return bytes(value);
  if (unit === '%') return `${number(value)} %`;
  return unit ? `${number(value)} ${unit}` : number(value);
}

function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let [size, index] = [value, 0];
  while (Math.abs(size) >= 1024 && index < units.length - 1) { size /= 1024; index += 1; }
  return `${number(size)} ${units[index]}`;
}

/** A cell of a table. */
export function cell(value: Scalar | undefined): string {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'number') return number(value);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return value;
}

/** 0.99 → `p99`, 0.9995 → `p99.95`, 1 → `max`. */
export function percentile(p: number): string {
  if (p >= 1) return 'max';
  return `p${(p * 100).toLocaleString('en', { maximumFractionDigits: 5 })}`;
}

/** `a`, `a and b`, `a, b and c`. */
export function listed(items: string[]): string {
  if (items.length < 2) return items.join('');
  return `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`;
}

/** Round numbers over a range, about `count` of them. */
export function ticks(low: number, high: number, count: number): number[] {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) ?? rough;
  const first = Math.ceil(low / step - 1e-9);
  const marks: number[] = [];
  for (let n = first; n * step <= high + step * 1e-9; n += 1) marks.push(Number((n * step).toPrecision(12)));
  return marks;
}
