// Throughput over the number of workers: every block, its mean with interval, the curve of the Universal
// Scalability Law (Gunther), and the smallest number that is within a few percent of the best.

import { number, quantity, ticks } from '../format';
import type { WorkersPlot } from '../document';
import { Figure } from './Figure';
import { Whisker } from './Whisker';
import { along, withWhiskers } from './scale';

const TOP = 14;
const HEIGHT = 280;
const BOTTOM = HEIGHT - 42;
const RIGHT = 16;
const CURVE_STEPS = 80;

/** X(N) = λN / (1 + σ(N−1) + κN(N−1)) */
const usl = (n: number, law: { lambda: number; sigma: number; kappa: number }): number =>
  (law.lambda * n) / (1 + law.sigma * (n - 1) + law.kappa * n * (n - 1));

export function Workers({ plot }: { plot: WorkersPlot }) {
  const best = Math.max(...plot.points.map((point) => point.value));
  const chosen = plot.chosen === undefined ? '' : ` Chosen: ${plot.chosen}.`;
  const law = plot.usl
    ? ` Contention σ = ${number(plot.usl.sigma * 100)} %, coherency κ = ${number(plot.usl.kappa * 100)} %.`
    : '';
  return (
    <Figure
      title={plot.title || 'How throughput grows with workers'}
      note={plot.note || `The band is within ${number(plot.bandPercent)} % of the best${plot.chosen === undefined ? '' : '; the smallest number in it is chosen'}. Arrows: the interval extends beyond the axis.${law}`}
      summary={`${plot.points.map((point) => `${point.workers} workers: ${quantity(point.value, plot.unit)}`).join('; ')}.${chosen}`}
      numbers={{
        columns: ['workers', plot.unit || 'value', 'low', 'high', 'of the best, %'],
        rows: plot.points.map((point) => [point.workers, point.value, point.low ?? null, point.high ?? null, (point.value / best) * 100]),
      }}
    >
      {(width) => <Drawing plot={plot} best={best} width={width} />}
    </Figure>
  );
}

function Drawing({ plot, best, width }: { plot: WorkersPlot; best: number; width: number }) {
  const most = Math.max(...plot.points.map((point) => point.workers), 2);
  const values = plot.points.flatMap((point) => [point.value, ...point.raw]);
  const seen = Math.max(best, ...withWhiskers(values, plot.points.map((point) => point.high ?? point.value))) || 1;
  const law = plot.usl;
  // The axis follows the measurements; a curve far from them may leave the drawing.
  const top = Math.min(seen * 1.4, Math.max(seen, law ? usl(most, law) : 0)) * 1.1;
  const marks = ticks(0, top, 5);
  const left = Math.max(...marks.map((mark) => number(mark).length)) * 7.5 + 12;
  const x = along(0.5, most + 0.5, left, width - RIGHT);
  const y = along(0, top, BOTTOM, TOP);
  const step = Math.max(1, Math.ceil(most / Math.max(2, (width - left) / 42)));
  const numbers = Array.from({ length: most }, (_, index) => index + 1).filter((n) => n === 1 || n % step === 0);
  const curve = law && Array.from({ length: CURVE_STEPS + 1 }, (_, index) => 0.6 + (index / CURVE_STEPS) * (most - 0.1))
    .map((n, index) => `${index === 0 ? 'M' : 'L'}${x(n).toFixed(1)} ${y(usl(n, law)).toFixed(1)}`).join('');
  return (
    <svg width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
      <g class="axis">
        {marks.map((mark) => (
          <g key={mark}>
            <line class="grid" x1={left} x2={width - RIGHT} y1={y(mark)} y2={y(mark)} />
            <text x={left - 6} y={y(mark) + 4} text-anchor="end">{number(mark)}</text>
          </g>
        ))}
        {numbers.map((n) => <text key={n} x={x(n)} y={BOTTOM + 18} text-anchor="middle">{n}</text>)}
        <text class="axis-label" x={width - RIGHT} y={BOTTOM + 36} text-anchor="end">workers</text>
        <text class="axis-label" x={left + 4} y={TOP - 2}>{plot.unit}</text>
      </g>
      <rect class="band" x={left} width={width - RIGHT - left} y={y(best)} height={Math.max(2, y(best * (1 - plot.bandPercent / 100)) - y(best))} />
      {curve && (
        <svg x="0" y={TOP} width={width} height={BOTTOM - TOP} viewBox={`0 ${TOP} ${width} ${BOTTOM - TOP}`}><path class="curve" d={curve} /></svg>
      )}
      {plot.points.map((point) => {
        const isChosen = point.workers === plot.chosen;
        return (
          <g key={point.workers}>
            {point.raw.map((value, index) => <circle class="raw" key={index} cx={x(point.workers) + 8} cy={y(value)} r="2" />)}
            {point.low !== undefined && point.high !== undefined && (
              <Whisker x={x(point.workers)} low={point.low} high={point.high} place={y} ends={[0, top]} />
            )}
            <circle class="estimate" cx={x(point.workers)} cy={y(point.value)} r="5">
              <title>{`${point.workers} workers: ${quantity(point.value, plot.unit)}`}</title>
            </circle>
            {isChosen && <circle class="chosen" cx={x(point.workers)} cy={y(point.value)} r="10" />}
            {isChosen && <text class="value" x={x(point.workers)} y={y(point.value) + 28} text-anchor="middle">chosen</text>}
          </g>
        );
      })}
    </svg>
  );
}
