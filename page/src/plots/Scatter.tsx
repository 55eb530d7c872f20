// Candidates by two metrics: candidates that another candidate beats on both are faint, the chosen candidate has a ring.

import { number, quantity, ticks } from '../format';
import type { ScatterPlot } from '../document';
import { Figure } from './Figure';
import { Whisker } from './Whisker';
import { along, range, withWhiskers } from './scale';

const TOP = 16;
const HEIGHT = 300;
const BOTTOM = HEIGHT - 44;
const RIGHT = 18;
/** The approximate width of a name. */
const LABEL_WIDTH = 110;
const LABEL_HEIGHT = 16;

const axisText = (label: string, unit: string): string => [label, unit].filter(Boolean).join(', ');

export function Scatter({ plot }: { plot: ScatterPlot }) {
  return (
    <Figure
      title={plot.title || 'What each choice costs and gives'}
      note={plot.note}
      summary={plot.points.map((point) => `${point.name}: ${quantity(point.x, plot.x.unit)}, ${quantity(point.y, plot.y.unit)}${point.chosen ? ' (chosen)' : ''}`).join('; ')}
      numbers={{
        columns: ['', axisText(plot.x.label, plot.x.unit), axisText(plot.y.label, plot.y.unit), 'chosen', 'worse on both'],
        rows: plot.points.map((point) => [point.name, point.x, point.y, point.chosen, point.dominated]),
      }}
    >
      {(width) => <Drawing plot={plot} width={width} />}
    </Figure>
  );
}

function Drawing({ plot, width }: { plot: ScatterPlot; width: number }) {
  const [xLow, xHigh] = range(plot.points.map((point) => point.x), false);
  const whiskers = plot.points.flatMap((point) => [point.low ?? point.y, point.high ?? point.y]);
  const [yLow, yHigh] = range(withWhiskers(plot.points.map((point) => point.y), whiskers), false);
  const yMarks = ticks(yLow, yHigh, 5);
  const left = Math.max(...yMarks.map((mark) => number(mark).length)) * 7.5 + 12;
  const x = along(xLow, xHigh, left, width - RIGHT);
  const y = along(yLow, yHigh, BOTTOM, TOP);
  return (
    <svg width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
      <g class="axis">
        {yMarks.map((mark) => (
          <g key={mark}>
            <line class="grid" x1={left} x2={width - RIGHT} y1={y(mark)} y2={y(mark)} />
            <text x={left - 6} y={y(mark) + 4} text-anchor="end">{number(mark)}</text>
          </g>
        ))}
        {ticks(xLow, xHigh, Math.max(2, width / 110)).map((mark) => (
          <text key={mark} x={x(mark)} y={BOTTOM + 18} text-anchor="middle">{number(mark)}</text>
        ))}
        <text class="axis-label" x={width - RIGHT} y={BOTTOM + 38} text-anchor="end">{axisText(plot.x.label, plot.x.unit)}</text>
        <text class="axis-label" x={left + 4} y={TOP - 4}>{axisText(plot.y.label, plot.y.unit)}</text>
      </g>
      {plot.points.map((point, index) => {
        const isCrowded = plot.points.some((other) =>
          x(other.x) > x(point.x) && x(other.x) < x(point.x) + LABEL_WIDTH && Math.abs(y(other.y) - y(point.y)) < LABEL_HEIGHT);
        const isLeft = isCrowded || x(point.x) > width - LABEL_WIDTH;
        return (
          <g key={index} class={point.dominated ? 'dominated' : ''}>
            {point.low !== undefined && point.high !== undefined && (
              <Whisker x={x(point.x)} low={point.low} high={point.high} place={y} ends={[yLow, yHigh]} />
            )}
            <circle class="estimate" cx={x(point.x)} cy={y(point.y)} r="5" />
            {point.chosen && <circle class="chosen" cx={x(point.x)} cy={y(point.y)} r="10" />}
            <text class="value" x={x(point.x) + (isLeft ? -13 : 13)} y={y(point.y) + 4} text-anchor={isLeft ? 'end' : 'start'}>{point.name}</text>
          </g>
        );
      })}
    </svg>
  );
}
