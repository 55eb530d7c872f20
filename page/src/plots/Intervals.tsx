// Effect sizes with their confidence intervals, against the line of no difference.

import { number } from '../format';
import type { IntervalsPlot } from '../document';
import { AxisX } from './AxisX';
import { Figure } from './Figure';
import { logarithmic, tickCount } from './scale';

const ROW = 46;
const TOP = 6;
const SIDE = 16;
/** How many times beyond the outermost estimates intervals may reach. */
const FACTOR_MAX = 3;

const interval = (row: { value: number; low?: number; high?: number }, unit: string): string =>
  row.low === undefined || row.high === undefined
    ? `${number(row.value)} ${unit}`
    : `${number(row.value)} ${unit} (${number(row.low)} to ${number(row.high)})`;

export function Intervals({ plot }: { plot: IntervalsPlot }) {
  const rows = plot.rows.filter((row) => row.value > 0);
  const ends = [plot.reference, ...rows.flatMap((row) => [row.value, row.low ?? row.value, row.high ?? row.value])].filter((end) => end > 0);
  // An interval from two blocks may be extremely wide: it is cut, so that the estimates remain distinguishable.
  const values = [plot.reference, ...rows.map((row) => row.value)];
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const room = Math.max(FACTOR_MAX, most / least);
  const [low, high] = [Math.max(Math.min(...ends), least / room) / 1.08, Math.min(Math.max(...ends), most * room) * 1.08];
  return (
    <Figure
      title={plot.title || 'How large the differences are'}
      note={plot.note || `With 95 % confidence intervals; an interval that crosses the line at ${number(plot.reference)} may be no difference.`}
      summary={rows.map((row) => `${row.name}: ${interval(row, plot.unit)}`).join('; ')}
      numbers={{ columns: ['what', 'value', 'low', 'high'], rows: rows.map((row) => [row.name, row.value, row.low ?? null, row.high ?? null]) }}
    >
      {(width) => {
        const scale = logarithmic(low, high, SIDE, width - SIDE, tickCount(width));
        const bottom = TOP + rows.length * ROW;
        return (
          <svg width={width} height={bottom + 40} viewBox={`0 0 ${width} ${bottom + 40}`} aria-hidden="true">
            <AxisX scale={scale} top={TOP} bottom={bottom} width={width} label={plot.unit} />
            <line class="reference" x1={scale.place(plot.reference)} x2={scale.place(plot.reference)} y1={TOP} y2={bottom} />
            {rows.map((row, index) => {
              const y = TOP + index * ROW + ROW * 0.7;
              const [from, to] = [scale.place(Math.max(low, row.low ?? row.value)), scale.place(Math.min(high, row.high ?? row.value))];
              return (
                <g key={index}>
                  <text class="row-name" x={SIDE - 10} y={y - 14}>{row.name}</text>
                  <text class="value" x={width - SIDE + 10} y={y - 14} text-anchor="end">{interval(row, plot.unit)}</text>
                  <line class="whisker" x1={from} x2={to} y1={y} y2={y} />
                  <path class="whisker" d={`M${from} ${y - 5}v10M${to} ${y - 5}v10`} />
                  <circle class="estimate" cx={scale.place(row.value)} cy={y} r="5" />
                </g>
              );
            })}
          </svg>
        );
      }}
    </Figure>
  );
}
