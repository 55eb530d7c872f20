// An interval as an upright line; an end that lies beyond the axis is open, with an arrow instead of a place.

import { within } from './scale';

type Props = { x: number; low: number; high: number; place: (value: number) => number; ends: [number, number] };

export function Whisker({ x, low, high, place, ends: [first, last] }: Props) {
  const [top, bottom] = [place(within(high, first, last)), place(within(low, first, last))];
  return (
    <g>
      <title>{`${low} to ${high}`}</title>
      <line class="whisker" x1={x} x2={x} y1={bottom} y2={top} />
      {high > last && <path class="whisker" d={`M${x - 4} ${top + 5}l4 -5l4 5`} />}
      {low < first && <path class="whisker" d={`M${x - 4} ${bottom - 5}l4 5l4 -5`} />}
    </g>
  );
}
