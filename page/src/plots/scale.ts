// Maps values to places, for the SVG drawings.

import { ticks } from '../format';

export type Scale = { place: (value: number) => number; ticks: number[] };

/** A plain linear mapping of `low..high` onto `from..to`. */
export function along(low: number, high: number, from: number, to: number): (value: number) => number {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

/** A linear scale over `low..high` on `from..to`. */
export function linear(low: number, high: number, from: number, to: number, count: number): Scale {
  return { place: along(low, high, from, to), ticks: ticks(low, high, count) };
}

/** A logarithmic scale; its ticks are 1, 2 and 5 of each power of ten, or evenly many over a short range. */
export function logarithmic(low: number, high: number, from: number, to: number, count: number): Scale {
  const [start, end] = [Math.log(low), Math.log(high)];
  const span = end - start || 1;
  const marks: number[] = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
    for (const factor of [1, 2, 5]) {
      const mark = Number((factor * 10 ** power).toPrecision(6));
      if (mark >= low * 0.999 && mark <= high * 1.001) marks.push(mark);
    }
  }
  return {
    place: (value) => from + ((Math.log(value) - start) / span) * (to - from),
    ticks: marks.length >= 3 ? marks : ticks(low, high, count),
  };
}

/** Where an axis begins and ends: at zero, unless all values are far from it. */
export function range(values: number[], fromZero: boolean): [number, number] {
  const finite = values.filter(Number.isFinite);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  if (finite.length === 0) return [0, 1];
  if (fromZero || low < high * 0.5) return [Math.min(0, low), high * 1.06 || 1];
  const margin = (high - low || Math.abs(high) || 1) * 0.15;
  return [low - margin, high + margin];
}

/** Whiskers that reach further beyond the values than this share of the largest are cut at the edge, with an open end: an
    interval from two rounds may be thirty times as wide as all that was measured. */
const WHISKER_MAX = 0.4;

/** Ends of an axis for values with whiskers: all values, and as much of the whiskers as leaves the values readable. */
export function withWhiskers(values: number[], ends: number[]): number[] {
  const finite = values.filter(Number.isFinite);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const margin = Math.max(WHISKER_MAX * Math.abs(high), high - low);
  return [...finite, ...ends.filter(Number.isFinite).map((end) => Math.min(high + margin, Math.max(low - margin, end)))];
}

/** A value within the ends of an axis. */
export const within = (value: number, low: number, high: number): number => Math.min(high, Math.max(low, value));

/** How many ticks fit without touching. */
export const tickCount = (width: number): number => Math.max(2, Math.floor(width / 90));
