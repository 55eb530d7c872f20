// Workers over time: how busy each event loop was, as rows of cells. It shows which worker differs from the others. A busy
// cell is also taller, so that no information depends on colour alone.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { number } from '../../format';
import { resolved } from '../../palette';
import { useWidth } from '../../plots/Figure';
import { DataTable } from '../../view/DataTable';
import type { Values } from '../history';
import { dated } from '../when';
import type { Mark } from './marks';

const ROW = 22;
/** Room for the signs of marks, above the rows. */
const HEAD = 16;
const LABELS = 74;
const ROWS_MAX = 60;

export type StripRow = { name: string; values: Values };
type Props = { title: string; note: string; xs: number[]; rows: StripRow[]; marks: Mark[] };

function draw(canvas: HTMLCanvasElement, width: number, { xs, rows, marks }: Props): void {
  const pixel = devicePixelRatio;
  const height = HEAD + rows.length * ROW;
  Object.assign(canvas, { width: width * pixel, height: height * pixel });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  if (!context) return;
  context.scale(pixel, pixel);
  const colors = ['--heat-0', '--heat-1', '--heat-2', '--heat-3', '--heat-4'].map(resolved);
  const [ink, cell] = [resolved('--ink'), (width - LABELS) / Math.max(1, xs.length)];
  context.font = '12px system-ui, sans-serif';
  context.textBaseline = 'middle';
  rows.forEach(({ name, values }, row) => {
    context.fillStyle = ink;
    context.fillText(name, 0, HEAD + row * ROW + ROW / 2, LABELS - 8);
    for (let index = 0; index < xs.length; index += 1) {
      const value = values[index];
      if (typeof value !== 'number') continue;
      const share = Math.min(1, Math.max(0, value));
      context.fillStyle = colors[Math.min(4, Math.floor(share * 5))] ?? ink;
      const tall = 4 + share * (ROW - 6);
      context.fillRect(LABELS + index * cell, HEAD + row * ROW + ROW - 1 - tall, Math.ceil(cell), tall);
    }
  });
  const [from, step] = [xs[0] ?? 0, (xs[1] ?? 0) - (xs[0] ?? 0)];
  context.fillStyle = ink;
  context.strokeStyle = ink;
  context.textAlign = 'center';
  context.setLineDash([2, 3]);
  for (const { at, sign } of marks) {
    const x = LABELS + ((at - from) / step) * cell;
    if (!(x >= LABELS && x <= width)) continue;
    context.fillText(sign, x, HEAD / 2);
    context.beginPath();
    context.moveTo(x, HEAD);
    context.lineTo(x, height);
    context.stroke();
  }
}

/** The workers that are far from the others now, in words. */
export function oddOnes(rows: StripRow[]): string {
  const recent = rows.map(({ name, values }) => {
    const last = values.filter((value) => value !== null).slice(-15);
    return { name, value: last.length > 0 ? last.reduce((total, value) => total + value, 0) / last.length : null };
  });
  const all = recent.flatMap(({ value }) => (value === null ? [] : [value])).sort((a, b) => a - b);
  const middle = all[Math.floor(all.length / 2)] ?? 0;
  const odd = recent.filter(({ value }) => value !== null && Math.abs(value - middle) > 0.3);
  if (all.length < 2) return '';
  if (odd.length === 0) return 'All workers are about equally busy.';
  return `Different from the others: ${odd.map(({ name, value }) => `${name} at ${number((value ?? 0) * 100)} %`).join(', ')}; the median is ${number(middle * 100)} %.`;
}

export function Strip(props: Props) {
  const { title, note, xs, rows, marks } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const text = useRef<HTMLParagraphElement>(null);
  const [isOpen, setOpen] = useState(false);
  const width = useWidth(box);
  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element || width <= 0) return undefined;
    const redraw = () => draw(element, width, props);
    redraw();
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', redraw);
    return () => dark.removeEventListener('change', redraw);
  }, [width, xs, rows, marks]);
  const onMove = (event: PointerEvent) => {
    const [column, row] = [Math.floor(((event.offsetX - LABELS) / (width - LABELS)) * xs.length), Math.floor((event.offsetY - HEAD) / ROW)];
    const [x, value] = [xs[column], rows[row]?.values[column]];
    if (text.current) text.current.textContent = x === undefined ? '' : `${rows[row]?.name}, ${dated(x * 1000)}: ${typeof value === 'number' ? `${number(value * 100)} %` : 'no value'}`;
  };
  const odd = oddOnes(rows);
  const step = Math.ceil(xs.length / ROWS_MAX);
  const percent = (value: number | null | undefined) => (typeof value === 'number' ? `${number(value * 100)} %` : '–');
  return (
    <figure class="plot">
      <figcaption><h3>{title}</h3><p class="note">{note} {odd}</p></figcaption>
      <div class="drawing" ref={box} role="img" aria-label={`${title}. ${odd}`}><canvas ref={canvas} onPointerMove={onMove} /></div>
      <p class="readout" ref={text} aria-hidden="true" />
      <details class="numbers" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>The numbers</summary>
        {isOpen && (
          <DataTable caption={title} columns={['time', ...rows.map(({ name }) => name)]}
            rows={xs.flatMap((x, index) => (index % step === 0 ? [[dated(x * 1000), ...rows.map(({ values }) => percent(values[index]))]] : [])).reverse()} />
        )}
      </details>
    </figure>
  );
}
