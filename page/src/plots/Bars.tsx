// Plain and stacked horizontal bars, from zero. Names are above their bars, so that they need no width.

import { listed, number, quantity } from '../format';
import { color } from '../palette';
import type { BarsPlot, BreakdownPlot } from '../document';
import { AxisX } from './AxisX';
import { Figure } from './Figure';
import { linear, tickCount } from './scale';

const ROW = 44;
const TOP = 6;
const SIDE = 10;
const THICK = 14;

export function Bars({ plot }: { plot: BarsPlot }) {
  const high = Math.max(...plot.rows.map((row) => Math.max(row.value, row.high ?? 0)), 0) || 1;
  return (
    <Figure
      title={plot.title}
      note={plot.note}
      summary={plot.rows.map((row) => `${row.name}: ${quantity(row.value, plot.unit)}`).join('; ')}
      numbers={{ columns: ['', plot.unit || 'value', 'low', 'high', 'note'], rows: plot.rows.map((row) => [row.name, row.value, row.low ?? null, row.high ?? null, row.note]) }}
    >
      {(width) => {
        const scale = linear(0, high * 1.04, SIDE, width - SIDE, tickCount(width));
        const bottom = TOP + plot.rows.length * ROW;
        return (
          <svg width={width} height={bottom + 40} viewBox={`0 0 ${width} ${bottom + 40}`} aria-hidden="true">
            <AxisX scale={scale} top={TOP} bottom={bottom} width={width} label={plot.unit} />
            {plot.rows.map((row, index) => {
              const y = TOP + index * ROW + 22;
              return (
                <g key={index}>
                  <text class="row-name" x={SIDE} y={y - 6}>{row.name}</text>
                  <text class="value" x={width - SIDE} y={y - 6} text-anchor="end">{quantity(row.value, plot.unit)}{row.note && ` · ${row.note}`}</text>
                  <rect x={SIDE} y={y} width={Math.max(1, scale.place(Math.max(0, row.value)) - SIDE)} height={THICK} rx="2" fill={color(row.name, 0)} />
                  {row.low !== undefined && row.high !== undefined && (
                    <path class="whisker" d={`M${scale.place(row.low)} ${y + THICK / 2}H${scale.place(row.high)}M${scale.place(row.low)} ${y + 3}v8M${scale.place(row.high)} ${y + 3}v8`} />
                  )}
                </g>
              );
            })}
          </svg>
        );
      }}
    </Figure>
  );
}

export function Breakdown({ plot }: { plot: BreakdownPlot }) {
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  const high = Math.max(...plot.rows.map((row) => sum(row.values))) || 1;
  const summary = plot.rows.map((row) =>
    `${row.name}: ${listed(plot.parts.map((part, index) => `${part} ${quantity(row.values[index] ?? 0, plot.unit)}`))}`).join('; ');
  return (
    <Figure
      title={plot.title || 'Where the time goes'}
      note={plot.note}
      summary={summary}
      numbers={{ columns: ['', ...plot.parts], rows: plot.rows.map((row) => [row.name, ...row.values]) }}
    >
      {(width) => {
        const scale = linear(0, high * 1.02, SIDE, width - SIDE, tickCount(width));
        const bottom = TOP + plot.rows.length * ROW;
        return (
          <>
            <ul class="legend parts">
              {plot.parts.map((part, index) => <li key={part}><span class={`swatch part-${index % 4}`} />{part}</li>)}
            </ul>
            <svg width={width} height={bottom + 40} viewBox={`0 0 ${width} ${bottom + 40}`} aria-hidden="true">
              <AxisX scale={scale} top={TOP} bottom={bottom} width={width} label={plot.unit} />
              {plot.rows.map((row, rowIndex) => {
                const y = TOP + rowIndex * ROW + 22;
                return (
                  <g key={rowIndex}>
                    <text class="row-name" x={SIDE} y={y - 6}>{row.name}</text>
                    <text class="value" x={width - SIDE} y={y - 6} text-anchor="end">{number(sum(row.values))} {plot.unit}</text>
                    {row.values.map((value, index) => {
                      const from = scale.place(sum(row.values.slice(0, index)));
                      const part = plot.parts[index] ?? '';
                      return (
                        <rect class={`part-${index % 4}`} key={part} x={from} y={y} height={THICK} width={Math.max(0, scale.place(sum(row.values.slice(0, index + 1))) - from)}>
                          <title>{`${part}: ${quantity(value, plot.unit)}`}</title>
                        </rect>
                      );
                    })}
                  </g>
                );
              })}
            </svg>
          </>
        );
      }}
    </Figure>
  );
}
