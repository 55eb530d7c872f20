// Lines over a continuous axis: latency over rate, anything over time, and the percentile spectrum whose
// axis spreads the tail out (90, 99, 99.9 % … evenly far apart, after HdrHistogram's plots).

import uPlot from 'uplot';
import { number, percentile, quantity } from '../format';
import { dash, resolved, resolvedColor } from '../palette';
import type { Axis, LinesPlot, PercentilesPlot, Series, TimelinePlot } from '../document';
import { Canvas, themedAxis, verticalAxis } from './Canvas';
import { Figure } from './Figure';

const HEIGHT = 260;
const X_AXIS_HEIGHT = 30;
/** Up to this number of distinct values, all of them are labels of a logarithmic axis. */
const PLACES_NAMED_MAX = 10;

type Chart = {
  series: Series[];
  x: Axis;
  y: Axis;
  fromZero: boolean;
  isSmooth: boolean;
  /** The label of a value on the x axis. */
  nameOfX: (x: number) => string;
  /** The marks of the x axis, if they are not at round numbers. */
  splits?: number[];
  marks?: { at: number; label: string }[];
};

/** All series over the union of their x values, in uPlot's format. */
function aligned(series: Series[]): uPlot.AlignedData {
  const tables = series.map((one): uPlot.AlignedData => {
    const unique = one.points.filter((point, index) => point.x !== one.points[index - 1]?.x);
    return [unique.map((point) => point.x), unique.map((point) => point.y)];
  });
  return tables.length === 1 && tables[0] ? tables[0] : uPlot.join(tables);
}

function options(chart: Chart): Omit<uPlot.Options, 'width' | 'height'> {
  const byName = (marks: number[]) => marks.map((mark) => (mark === null ? '' : chart.nameOfX(mark)));
  const values = (marks: number[]) => marks.map((mark) => (mark === null ? '' : number(mark)));
  return {
    cursor: { drag: { x: true, y: false }, points: { size: 7 } },
    scales: {
      x: chart.x.log ? { time: false, distr: 3, range: (_self, low, high) => [Math.max(low, 1e-6) * 0.9, Math.max(high, 1e-6) * 1.1] } : { time: false },
      y: chart.y.log
        ? { distr: 3, range: (_self, low, high) => logRange(low, high) }
        : { range: (_self, low, high) => linearRange(low, high, chart.fromZero) },
    },
    axes: [
      themedAxis(byName, { size: X_AXIS_HEIGHT, ...(chart.splits ? { splits: () => chart.splits ?? [], filter: (_self, marks) => marks } : {}) }),
      verticalAxis(values, chart.y.log ? { splits: (_self, _axis, low, high) => logSplits(low, high), filter: (_self, marks) => marks } : {}),
    ],
    series: [{}, ...chart.series.map((one, index): uPlot.Series => ({
      label: one.name,
      stroke: resolvedColor(one.name, index),
      width: 2,
      dash: dash(one.name, index),
      spanGaps: true,
      points: { show: !chart.isSmooth || one.points.length < 3, size: 6 },
    }))],
    hooks: { draw: [(self) => drawIntervals(self, chart), (self) => drawMarks(self, chart)] },
  };
}

const linearRange = (low: number, high: number, fromZero: boolean): [number, number] => {
  const top = high > 0 ? high * 1.06 : 1;
  return fromZero || low <= 0 ? [Math.min(0, low), top] : [low * 0.94, top];
};

const logRange = (low: number, high: number): [number, number] =>
  [Math.max(low, 1e-6) * 0.8, Math.max(high, 1e-6) * 1.25];

/** 1, 2 and 5 of each power of ten; over more than three powers, the powers alone. */
function logSplits(low: number, high: number): number[] {
  const factors = Math.log10(high / low) > 3 ? [1] : [1, 2, 5];
  const marks: number[] = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
    for (const factor of factors) {
      const mark = Number((factor * 10 ** power).toPrecision(6));
      if (mark >= low && mark <= high) marks.push(mark);
    }
  }
  return marks;
}

function drawIntervals(self: uPlot, { series }: Chart) {
  const { ctx } = self;
  const pixel = devicePixelRatio;
  ctx.save();
  ctx.lineWidth = 1.2 * pixel;
  for (const [index, one] of series.entries()) {
    ctx.strokeStyle = resolvedColor(one.name, index);
    for (const { x, low, high } of one.points) {
      if (low === undefined || high === undefined) continue;
      const [left, top, bottom] = [self.valToPos(x, 'x', true), self.valToPos(high, 'y', true), self.valToPos(low, 'y', true)];
      ctx.beginPath();
      ctx.moveTo(left, top);
      ctx.lineTo(left, bottom);
      for (const end of [top, bottom]) {
        ctx.moveTo(left - 4 * pixel, end);
        ctx.lineTo(left + 4 * pixel, end);
      }
      ctx.stroke();
    }
  }
  ctx.restore();
}

function drawMarks(self: uPlot, { marks = [] }: Chart) {
  const { ctx, bbox } = self;
  const pixel = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = resolved('--muted');
  ctx.fillStyle = resolved('--muted');
  ctx.font = `${11 * pixel}px system-ui, sans-serif`;
  ctx.setLineDash([3 * pixel, 3 * pixel]);
  for (const { at, label } of marks) {
    const x = self.valToPos(at, 'x', true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const isRight = x > bbox.left + bbox.width * 0.7;
    ctx.textAlign = isRight ? 'right' : 'left';
    ctx.fillText(label, x + (isRight ? -4 : 4) * pixel, bbox.top + 12 * pixel);
  }
  ctx.restore();
}

const axisText = ({ label, unit }: Axis): string => [label, unit].filter(Boolean).join(', ');

function ChartView({ chart, width }: { chart: Chart; width: number }) {
  const data = aligned(chart.series);
  const readout = (index: number): string => {
    const x = data[0][index];
    if (x === undefined) return '';
    const values = chart.series.flatMap((one, place) => {
      const y = data[place + 1]?.[index];
      return typeof y === 'number' ? [`${one.name} ${quantity(y, chart.y.unit)}`] : [];
    });
    return `${chart.nameOfX(x)}: ${values.join(' · ')}`;
  };
  return (
    <>
      <div class="axis-title">{axisText(chart.y)}</div>
      <Canvas width={width} height={HEIGHT} data={data} options={() => options(chart)} readout={readout} below={axisText(chart.x)} />
    </>
  );
}

/** First, last and largest value of every series, as one sentence. */
const summaryOf = (series: Series[], unit: string, nameOfX: (x: number) => string): string =>
  series.map((one) => {
    const [first, last] = [one.points[0], one.points.at(-1)];
    const peak = one.points.reduce((best, point) => (point.y > best.y ? point : best), one.points[0] ?? { x: 0, y: 0 });
    if (!first || !last) return one.name;
    return `${one.name}: ${quantity(first.y, unit)} at ${nameOfX(first.x)}, ${quantity(last.y, unit)} at ${nameOfX(last.x)}, at most ${quantity(peak.y, unit)}`;
  }).join('; ');

/** Rows of the table below the lines; long tables skip rows. */
const ROWS_MAX = 60;
function rowsOf(series: Series[], nameOfX: (x: number) => string) {
  const xs = [...new Set(series.flatMap((one) => one.points.map((point) => point.x)))].sort((a, b) => a - b);
  const step = Math.ceil(xs.length / ROWS_MAX);
  const lookup = series.map((one) => new Map(one.points.map((point) => [point.x, point.y])));
  return xs.filter((_, index) => index % step === 0 || index === xs.length - 1)
    .map((x) => [nameOfX(x), ...lookup.map((points) => points.get(x) ?? null)]);
}

export function Lines({ plot }: { plot: LinesPlot }) {
  const nameOfX = (x: number) => quantity(x, plot.x.unit);
  const places = [...new Set(plot.series.flatMap((one) => one.points.map((point) => point.x)))].filter((x) => x > 0);
  const chart: Chart = {
    series: plot.series, x: plot.x, y: plot.y, fromZero: true, isSmooth: false, nameOfX: (x) => number(x),
    splits: plot.x.log && places.length <= PLACES_NAMED_MAX ? places : undefined,
  };
  return (
    <Figure title={plot.title || 'Latency over rate'} note={plot.note} names={plot.series.map((one) => one.name)} lines
      summary={summaryOf(plot.series, plot.y.unit, nameOfX)}
      numbers={{ columns: [axisText(plot.x), ...plot.series.map((one) => one.name)], rows: rowsOf(plot.series, nameOfX) }}>
      {(width) => <ChartView chart={chart} width={width} />}
    </Figure>
  );
}

export function Timeline({ plot }: { plot: TimelinePlot }) {
  const nameOfX = (x: number) => `${number(x)} s`;
  const chart: Chart = {
    series: plot.series, x: { label: 'time', unit: 's', log: false }, y: { label: '', unit: plot.unit, log: false },
    fromZero: plot.fromZero, isSmooth: true, nameOfX, marks: plot.marks,
  };
  return (
    <Figure title={plot.title || 'Over time'} note={plot.note} names={plot.series.map((one) => one.name)} lines
      summary={summaryOf(plot.series, plot.unit, nameOfX)}
      numbers={{ columns: ['time', ...plot.series.map((one) => one.name)], rows: rowsOf(plot.series, nameOfX) }}>
      {(width) => <ChartView chart={chart} width={width} />}
    </Figure>
  );
}

/** The place of a percentile on an axis on which each further nine has the same width. */
const spread = (p: number): number => -Math.log10(1 - p);
/** The axis ends at this share; the maximum is drawn one third of a nine after the last point. */
const SHARE_MAX = 1 - 1e-9;

export function Percentiles({ plot }: { plot: PercentilesPlot }) {
  const inside = plot.series.flatMap((one) => one.points.filter((point) => point.x <= SHARE_MAX).map((point) => point.x));
  const last = spread(Math.max(0.5, ...inside));
  const places = new Map<number, number>();
  const series = plot.series.map((one) => ({
    ...one,
    points: one.points.map((point) => {
      const x = point.x > SHARE_MAX ? last + 0.33 : spread(Math.max(0, point.x));
      places.set(x, point.x);
      return { ...point, x };
    }),
  }));
  const nines = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999].filter((p) => spread(p) <= last + 0.01);
  const nameOfX = (x: number) => percentile(places.get(x) ?? Math.round((1 - 10 ** -x) * 1e7) / 1e7);
  const values = series.flatMap((one) => one.points.map((point) => point.y)).filter((y) => y > 0);
  const isLog = values.length > 0 && Math.max(...values) / Math.min(...values) > 30;
  const chart: Chart = {
    series, x: { label: 'percentile of requests', unit: '', log: false }, y: { label: 'latency', unit: plot.unit, log: isLog },
    fromZero: true, isSmooth: true, nameOfX, splits: nines.map(spread),
  };
  return (
    <Figure title={plot.title || 'The whole latency spectrum'}
      note={plot.note || 'Each further nine has the same width, so that the tail is visible. Lower is better.'}
      names={series.map((one) => one.name)} lines
      summary={percentileSummary(plot)}
      numbers={{ columns: ['percentile', ...series.map((one) => `${one.name}, ${plot.unit}`)], rows: rowsOf(series, nameOfX) }}>
      {(width) => <ChartView chart={chart} width={width} />}
    </Figure>
  );
}

function percentileSummary({ series, unit }: PercentilesPlot): string {
  return series.map((one) => {
    const said = [0.5, 0.9, 0.99, 0.999].flatMap((p) => {
      const point = one.points.find((candidate) => candidate.x >= p - 1e-9 && candidate.x < p + (1 - p) * 0.5);
      return point ? [`${percentile(p)} ${quantity(point.y, unit)}`] : [];
    });
    return `${one.name}: ${said.join(', ')}`;
  }).join('; ');
}
