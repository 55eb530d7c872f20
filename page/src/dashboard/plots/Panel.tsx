// A plot over time: lines or a stack, with marks, the values under the pointer in words, and its numbers as a table. New
// values go into the existing drawing; it is created again only for another width, theme or set of lines.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { quantity } from '../../format';
import { resolved } from '../../palette';
import { themedAxis, verticalAxis } from '../../plots/Canvas';
import { useWidth } from '../../plots/Figure';
import { DataTable } from '../../view/DataTable';
import type { Values } from '../history';
import { dated, moment } from '../when';
import type { Mark } from './marks';

const HEIGHT = 190;
const ROWS_MAX = 60;
const SYNC = 'history';
/** Steps of an axis of bytes. */
const BINARY = Array.from({ length: 45 }, (_, power) => 2 ** power);

export type Line = { name: string; values: Values; color: string; dash?: number[] };
export type PanelProps = {
  title: string; note?: string; unit: string; xs: number[]; lines: Line[]; stacked?: boolean;
  /** The minimum upper end of the axis. */
  top?: number; marks: Mark[];
};
type Drawn = Pick<PanelProps, 'unit' | 'xs' | 'lines' | 'stacked' | 'top' | 'marks'>;

/** Each line on top of the previous lines; drawn from the highest down, so that all of them are visible. */
export function stackOf(lines: Line[], points: number): Values[] {
  const total: Values = new Array(points).fill(null);
  return lines.map(({ values }) => {
    for (let index = 0; index < points; index += 1) {
      const value = values[index] ?? null;
      if (value !== null) total[index] = (total[index] ?? 0) + value;
    }
    return [...total];
  });
}

function dataOf({ xs, lines, stacked }: Drawn): uPlot.AlignedData {
  const columns = stacked ? stackOf(lines, xs.length).reverse() : lines.map(({ values }) => (values.length > 0 ? values : xs.map(() => null)));
  return [xs, ...columns];
}

function valuesAt({ lines, unit }: Drawn, index: number): string {
  return lines.map(({ name, values }) => {
    const value = values[index];
    return `${name} ${typeof value === 'number' ? quantity(value, unit) : '–'}`;
  }).join(' · ');
}

function options(drawn: { current: Drawn }, readout: (text: string) => void): Omit<uPlot.Options, 'width' | 'height'> {
  const { lines, stacked = false, unit } = drawn.current;
  const shown = stacked ? [...lines].reverse() : lines;
  const color = (line: Line) => resolved(line.color);
  return {
    cursor: { sync: { key: SYNC, setSeries: false }, drag: { x: false, y: false }, points: { size: 6 } },
    legend: { show: false },
    scales: { x: { time: true }, y: { range: (_self, _low, high) => [0, Math.max(drawn.current.top ?? 0, high > 0 ? high * 1.06 : 1)] } },
    axes: [
      themedAxis((marks) => {
        const { xs } = drawn.current;
        const span = ((xs.at(-1) ?? 0) - (xs[0] ?? 0)) * 1000;
        return marks.map((mark) => moment(mark * 1000, span));
      }, { size: 28, space: 90 }),
      verticalAxis((marks) => marks.map((mark) => (mark === null ? '' : quantity(mark, unit))), unit === 'bytes' ? { incrs: BINARY } : {}),
    ],
    series: [{}, ...shown.map((line): uPlot.Series => ({
      label: line.name, stroke: color(line), width: stacked ? 1 : 1.75, dash: line.dash ?? [], fill: stacked ? color(line) : undefined,
      points: { show: false }, spanGaps: false,
    }))],
    hooks: {
      setCursor: [(self) => {
        const index = self.cursor.idx;
        const x = typeof index === 'number' ? drawn.current.xs[index] : undefined;
        readout(x === undefined || typeof index !== 'number' ? '' : `${dated(x * 1000)}: ${valuesAt(drawn.current, index)}`);
      }],
      draw: [(self) => drawMarks(self, drawn.current.marks)],
    },
  };
}

function drawMarks(self: uPlot, marks: Mark[]): void {
  const { ctx, bbox } = self;
  const pixel = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = resolved('--ink');
  ctx.fillStyle = resolved('--ink');
  ctx.lineWidth = pixel;
  ctx.font = `${12 * pixel}px system-ui, sans-serif`;
  ctx.textAlign = 'center';
  ctx.setLineDash([2 * pixel, 3 * pixel]);
  for (const { at, sign } of marks) {
    const x = self.valToPos(at, 'x', true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top + 14 * pixel);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.fillText(sign, x, bbox.top + 11 * pixel);
  }
  ctx.restore();
}

/** The last marks in words: `✕ crash 16:03:27`, with links to their details. */
function LastMarks({ xs, marks }: { xs: number[]; marks: Mark[] }) {
  const [from, to] = [xs[0] ?? 0, (xs.at(-1) ?? 0) + (xs[1] ?? 0) - (xs[0] ?? 0)];
  const last = marks.filter(({ at }) => at >= from && at <= to).slice(-4);
  if (last.length === 0) return null;
  return (
    <p class="note">{last.map(({ at, sign, label, href }, index) => {
      const words = `${sign} ${label} ${dated(at * 1000)}`;
      return <span key={`${at} ${label}`}>{index > 0 && ' · '}{href === undefined ? words : <a href={href}>{words}</a>}</span>;
    })}</p>
  );
}

/** The last values, for screen readers. */
function summaryOf(drawn: Drawn): string {
  const last = drawn.xs.findLastIndex((_, index) => drawn.lines.some(({ values }) => typeof values[index] === 'number'));
  return last < 0 ? 'No values yet.' : `Now: ${valuesAt(drawn, last)}.`;
}

export function Panel(props: PanelProps) {
  const { title, note, xs, lines, stacked = false } = props;
  const drawn = useRef<Drawn>(props);
  drawn.current = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLDivElement>(null);
  const text = useRef<HTMLParagraphElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [isOpen, setOpen] = useState(false);
  const width = useWidth(box);
  const kind = `${stacked} ${lines.map(({ name, color }) => `${name} ${color}`).join(' ')}`;
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || width <= 0) return undefined;
    const readout = (said: string) => { if (text.current) text.current.textContent = said; };
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot({ ...options(drawn, readout), width, height: HEIGHT }, dataOf(drawn.current), element);
    };
    make();
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', make);
    return () => {
      dark.removeEventListener('change', make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [width, kind]);
  useLayoutEffect(() => { plot.current?.setData(dataOf(drawn.current)); }, [xs, props.marks]);
  return (
    <figure class="plot">
      <figcaption><h3>{title}</h3>{note && <p class="note">{note}</p>}</figcaption>
      {lines.length > 1 && (
        <ul class="legend">{lines.map((line) => (
          <li key={line.name}>
            <svg width="28" height="14" aria-hidden="true">
              {stacked
                ? <rect x="7" width="14" height="14" rx="3" fill={`var(${line.color})`} />
                : <line x1="1" y1="7" x2="27" y2="7" stroke={`var(${line.color})`} stroke-width="2.5" stroke-dasharray={(line.dash ?? []).join(' ')} />}
            </svg>
            {line.name}
          </li>
        ))}</ul>
      )}
      <div class="drawing" ref={box} role="img" aria-label={`${title}. ${summaryOf(props)}`}><div class="canvas" ref={canvas} /></div>
      <p class="readout" ref={text} aria-hidden="true" />
      <LastMarks xs={xs} marks={props.marks} />
      <details class="numbers" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>The numbers</summary>
        {isOpen && <Numbers {...props} />}
      </details>
    </figure>
  );
}

function Numbers({ title, unit, xs, lines, marks }: PanelProps) {
  const step = Math.ceil(xs.length / ROWS_MAX);
  const places = xs.map((_, index) => index).filter((index) => index % step === 0);
  const rows = places.map((index) => {
    const [from, to] = [xs[index] ?? 0, xs[index + step] ?? Infinity];
    const there = marks.filter(({ at }) => at >= from && at < to).map(({ label }) => label).join(', ');
    return [dated(from * 1000), ...lines.map(({ values }) => { const value = values[index]; return typeof value === 'number' ? quantity(value, unit) : '–'; }), there];
  });
  return <DataTable columns={['time', ...lines.map(({ name }) => name), 'what happened']} rows={rows.reverse()} caption={title} />;
}
