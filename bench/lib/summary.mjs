// From samples to rows: the final sample of each round, medians and spreads by case, ratios within the rounds.

import { pairedRatio, spread } from './stats.mjs';

/** The samples that count: the last attempt of each round, without faults. */
export const finalSamples = (result) => result.samples.filter((sample) => sample.final && sample.error === undefined);

/** Values of one measure by round, for one case. */
export function byRound(result, name, value) {
  const rounds = new Map();
  for (const sample of finalSamples(result)) if (sample.case === name) rounds.set(sample.round, value(sample));
  return rounds;
}

/** Spread of one measure over the rounds, for one case. */
export const spreadOf = (result, name, value) => spread([...byRound(result, name, value).values()]);

/** Ratio of one measure between two cases, paired by round. */
export const ratioOf = (result, name, base, value) => pairedRatio(byRound(result, name, value), byRound(result, base, value));

/** Names of the cases that have at least one sample, in the order in which they were asked for. */
export function casesOf(result, order) {
  const present = new Set(finalSamples(result).map((sample) => sample.case));
  return [...order.filter((name) => present.has(name)), ...[...present].filter((name) => !order.includes(name))];
}

/** This build and the baseline side by side, by case and measure; `null` where no baseline ran. */
export function besideBaseline(result, measures) {
  const cases = casesOf(result, []);
  const pairs = cases.filter((name) => name.startsWith('baseline')).map((base) => [base.replace('baseline', 'forkful'), base]);
  const rows = pairs.filter(([name]) => cases.includes(name)).flatMap(([name, base]) => Object.entries(measures).map(([measure, value]) => [
    `${name}: ${measure}`, spreadText(spreadOf(result, name, value), 2), spreadText(spreadOf(result, base, value), 2), ratioText(ratioOf(result, name, base, value)),
  ]));
  return rows.length === 0 ? null : {
    title: 'This build and the baseline, in the same rounds', columns: ['', 'this build', 'baseline', 'this build ÷ baseline'], rows,
    notes: ['Medians with least, most and interquartile range over the rounds; the ratio is paired by round, with its 95 % interval. An interval that holds 1 shows no difference.'],
  };
}

export const fixed = (value, digits = 0) =>
  value === null || value === undefined || !Number.isFinite(value) ? '–' : value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** "median (min–max, IQR x)". */
export const spreadText = (s, digits = 0) =>
  s.n === 0 ? '–' : s.n === 1 ? fixed(s.median, digits) : `${fixed(s.median, digits)} (${fixed(s.min, digits)}–${fixed(s.max, digits)}, IQR ${fixed(s.iqr, digits)})`;

/** "1.93 [1.88, 1.98]". */
export const ratioText = (ratio) =>
  ratio === null ? '–' : ratio.low === null ? fixed(ratio.ratio, 2) : `${fixed(ratio.ratio, 2)} [${fixed(ratio.low, 2)}, ${fixed(ratio.high, 2)}]`;

/** A table in Markdown. */
export function markdown({ title, columns, rows, notes = [] }) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const rule = line(columns.map((_, i) => (i === 0 ? '---' : '---:')));
  return [`**${title}**`, '', line(columns), rule, ...rows.map(line), ...notes.flatMap((note) => ['', note])].join('\n');
}
