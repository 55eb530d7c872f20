// The frame of every plot: title, note, legend, the drawing with a text alternative, and its numbers as a
// table, so that readers who cannot see the drawing miss nothing.

import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Scalar } from '../document';
import { DataTable } from '../view/DataTable';
import { Words } from '../view/Words';
import { color, dash, shape } from '../palette';
import { Mark } from './Mark';

export type Numbers = { columns: string[]; rows: Scalar[][] };

/** The minimum width of a drawing; on narrower screens it is scaled. */
const WIDTH_MIN = 260;

type Props = {
  title: string;
  note: string;
  /** A description of the drawing, for screen readers. */
  summary: string;
  names?: string[];
  lines?: boolean;
  numbers: Numbers;
  children: (width: number) => ComponentChildren;
};

export function Figure({ title, note, summary, names = [], lines = false, numbers, children }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box);
  return (
    <figure class="plot">
      <figcaption>
        <h3>{title}</h3>
        {note && <p class="note"><Words text={note} /></p>}
      </figcaption>
      {names.length > 1 && <Legend names={names} lines={lines} />}
      <div class="drawing" ref={box} role="img" aria-label={`${title}. ${summary}`}>
        {width > 0 && children(Math.max(WIDTH_MIN, width))}
      </div>
      <details class="numbers">
        <summary>The numbers</summary>
        <DataTable columns={numbers.columns} rows={numbers.rows} caption={title} />
      </details>
    </figure>
  );
}

function Legend({ names, lines }: { names: string[]; lines: boolean }) {
  return (
    <ul class="legend">
      {names.map((name, index) => (
        <li key={name}>
          <svg width="28" height="14" aria-hidden="true">
            {lines
              ? <line x1="1" y1="7" x2="27" y2="7" stroke={color(name, index)} stroke-width="2.5" stroke-dasharray={dash(name, index).join(' ')} />
              : <Mark x={14} y={7} shape={shape(name, index)} color={color(name, index)} />}
          </svg>
          {name}
        </li>
      ))}
    </ul>
  );
}

/** The width of an element, followed over time. */
export function useWidth(box: { current: HTMLDivElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = () => setWidth(Math.floor(element.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return width;
}
