// Every block of an experiment as a dot, one row per arm; the blocks that were measured side by side are
// joined, so that a difference is visible as lines that all slope in the same direction.

import { number, quantity } from '../format';
import { color, shape } from '../palette';
import type { BlocksPlot } from '../document';
import { AxisX } from './AxisX';
import { Figure } from './Figure';
import { Mark } from './Mark';
import { linear, range, tickCount } from './scale';

const ROW = 70;
const TOP = 8;
const SIDE = 18;

/** The mean of the blocks that count, by the same rule as in the table. */
function mean(points: BlocksPlot['points'], isGeometric: boolean): number {
  const counted = points.filter((point) => point.counted);
  const values = (counted.length > 0 ? counted : points).map((point) => point.value);
  const of = (list: number[]): number => list.reduce((sum, value) => sum + value, 0) / list.length;
  return isGeometric && values.every((value) => value > 0) ? Math.exp(of(values.map(Math.log))) : of(values);
}

export function Blocks({ plot }: { plot: BlocksPlot }) {
  const arms = [...new Set(plot.points.map((point) => point.arm))];
  const blocks = [...new Set(plot.points.map((point) => point.block))].sort((a, b) => a - b);
  const of = (arm: string) => plot.points.filter((point) => point.arm === arm);
  const value = (arm: string, block: number) => of(arm).find((point) => point.block === block)?.value;
  const summary = arms.map((arm) => {
    const values = of(arm).map((point) => point.value);
    return `${arm}: ${values.length} blocks from ${number(Math.min(...values))} to ${quantity(Math.max(...values), plot.unit)}, mean ${number(mean(of(arm), plot.isGeometric))}`;
  }).join('; ');
  return (
    <Figure
      title={plot.title || 'Every block that was measured'}
      note={plot.note || `One dot per block and arm; lines join what was measured side by side. ${plot.better === 'higher' ? 'Further right is better.' : 'Further left is better.'}`}
      summary={summary}
      numbers={{ columns: ['block', ...arms], rows: blocks.map((block) => [block, ...arms.map((arm) => value(arm, block) ?? null)]) }}
    >
      {(width) => <Drawing plot={plot} arms={arms} blocks={blocks} width={width} />}
    </Figure>
  );
}

type DrawingProps = { plot: BlocksPlot; arms: string[]; blocks: number[]; width: number };

function Drawing({ plot, arms, blocks, width }: DrawingProps) {
  const [low, high] = range(plot.points.map((point) => point.value), false);
  const scale = linear(low, high, SIDE, width - SIDE, tickCount(width));
  const bottom = TOP + arms.length * ROW;
  const rowY = (arm: string) => TOP + arms.indexOf(arm) * ROW + ROW * 0.62;
  // Equal values would hide each other: blocks lie a little above and below their row.
  const dotY = (arm: string, block: number) => rowY(arm) + ((blocks.indexOf(block) % 5) - 2) * 4;
  const pairs = blocks.flatMap((block) => arms.slice(1).flatMap((arm, index) => {
    const [from, to] = [arms[index] ?? '', arm].map((name) => plot.points.find((point) => point.block === block && point.arm === name));
    return from && to ? [{ block, from, to }] : [];
  }));
  return (
    <svg width={width} height={bottom + 40} viewBox={`0 0 ${width} ${bottom + 40}`} aria-hidden="true">
      <AxisX scale={scale} top={TOP} bottom={bottom} width={width} label={plot.unit} />
      {pairs.map(({ block, from, to }) => (
        <line class="pair" key={`${block}-${to.arm}`} x1={scale.place(from.value)} y1={dotY(from.arm, block)} x2={scale.place(to.value)} y2={dotY(to.arm, block)} />
      ))}
      {arms.map((arm, index) => {
        const values = plot.points.filter((point) => point.arm === arm);
        const middle = mean(values, plot.isGeometric);
        const y = rowY(arm);
        const x = scale.place(middle);
        const isRight = x > width * 0.62;
        return (
          <g key={arm}>
            <text class="row-name" x={SIDE - 12} y={y - 24} fill={color(arm, index)}>{arm}</text>
            <line x1={x} x2={x} y1={y - 15} y2={y + 15} stroke={color(arm, index)} stroke-width="2" />
            <text class="value" x={isRight ? x - 6 : x + 6} y={y - 17} text-anchor={isRight ? 'end' : 'start'}>mean {number(middle)}</text>
            {values.map((point) => (
              <Mark key={point.block} x={scale.place(point.value)} y={dotY(arm, point.block)} shape={shape(arm, index)} color={color(arm, index)} faint={point.disturbed}
                title={`${arm}, block ${point.block}: ${quantity(point.value, plot.unit)}${point.disturbed ? ' (disturbed)' : ''}`} />
            ))}
          </g>
        );
      })}
    </svg>
  );
}
