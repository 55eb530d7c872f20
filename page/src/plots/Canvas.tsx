// uPlot inside Preact: created again when the width, the theme or the data changes, and in light colours
// while the page is printed. A line of text below it shows the values under the pointer.

import { useLayoutEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { resolved } from '../palette';

/** The width of a plot on paper, in CSS pixels: an A4 page within its margins. */
const PRINT_WIDTH = 660;

type Props = {
  width: number;
  height: number;
  data: uPlot.AlignedData;
  /** Options without the size; called again for every theme. */
  options: () => Omit<uPlot.Options, 'width' | 'height'>;
  /** The values at an index of the data, in words. */
  readout: (index: number) => string;
  /** The horizontal axis, in words. */
  below: string;
};

export function Canvas({ width, height, data, options, readout, below }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const text = useRef<HTMLParagraphElement>(null);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    let plot: uPlot | null = null;
    const draw = (drawnWidth: number) => {
      plot?.destroy();
      const given = options();
      const hooks: uPlot.Hooks.Arrays = {
        ...given.hooks,
        setCursor: [(self) => {
          const index = self.cursor.idx;
          if (text.current) text.current.textContent = typeof index === 'number' ? readout(index) : '';
        }],
      };
      plot = new uPlot({ ...given, hooks, legend: { show: false }, width: drawnWidth, height }, data, element);
    };
    const redraw = () => draw(width);
    const onPrint = () => draw(PRINT_WIDTH);
    draw(width);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', redraw);
    addEventListener('beforeprint', onPrint);
    addEventListener('afterprint', redraw);
    return () => {
      dark.removeEventListener('change', redraw);
      removeEventListener('beforeprint', onPrint);
      removeEventListener('afterprint', redraw);
      plot?.destroy();
    };
  }, [width, height, data]);
  return (
    <>
      <div class="canvas" ref={box} />
      <div class="axis-title right">{below}</div>
      <p class="readout" ref={text} aria-hidden="true" />
    </>
  );
}

/** An axis in the page's colours; `size` grows with the longest label. */
export function themedAxis(values: (marks: number[]) => string[], extra: Partial<uPlot.Axis> = {}): uPlot.Axis {
  return {
    stroke: resolved('--muted'),
    grid: { stroke: resolved('--grid'), width: 1 },
    ticks: { stroke: resolved('--grid'), width: 1, size: 4 },
    font: '12px system-ui, sans-serif',
    values: (_self, marks) => values(marks),
    ...extra,
  };
}

/** The vertical axis: as wide as its longest label. */
export const verticalAxis = (values: (marks: number[]) => string[], extra: Partial<uPlot.Axis> = {}): uPlot.Axis =>
  themedAxis(values, {
    size: (_self, labels) => Math.max(34, ...(labels ?? []).map((label) => label.length * 7.2 + 14)),
    ...extra,
  });
