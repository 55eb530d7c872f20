// A horizontal axis below a drawing, with a grid above it.

import { number } from '../format';
import type { Scale } from './scale';

type Props = { scale: Scale; top: number; bottom: number; width: number; label: string; text?: (value: number) => string };

export function AxisX({ scale, top, bottom, width, label, text = number }: Props) {
  return (
    <g class="axis">
      {scale.ticks.map((tick) => (
        <g key={tick}>
          <line class="grid" x1={scale.place(tick)} x2={scale.place(tick)} y1={top} y2={bottom} />
          <text x={scale.place(tick)} y={bottom + 16} text-anchor="middle">{text(tick)}</text>
        </g>
      ))}
      <text class="axis-label" x={width - 4} y={bottom + 34} text-anchor="end">{label}</text>
    </g>
  );
}
