// The shapes of points.

import type { Shape } from '../palette';

type Props = { x: number; y: number; shape: Shape; color: string; size?: number; faint?: boolean; title?: string };

export function Mark({ x, y, shape, color, size = 5, faint = false, title }: Props) {
  const hollow = shape === 'ring' || faint;
  const common = {
    fill: hollow ? 'none' : color, stroke: color, 'stroke-width': hollow ? 1.6 : 1, class: 'mark',
  };
  const inner = title ? <title>{title}</title> : null;
  switch (shape) {
    case 'square':
      return <rect {...common} x={x - size * 0.9} y={y - size * 0.9} width={size * 1.8} height={size * 1.8}>{inner}</rect>;
    case 'triangle':
      return <path {...common} d={`M${x} ${y - size * 1.15}l${size * 1.1} ${size * 1.95}h${-size * 2.2}z`}>{inner}</path>;
    case 'diamond':
      return <path {...common} d={`M${x} ${y - size * 1.25}l${size * 1.25} ${size * 1.25}l${-size * 1.25} ${size * 1.25}l${-size * 1.25} ${-size * 1.25}z`}>{inner}</path>;
    case 'cross':
      return <path {...common} stroke-width={2.4} d={`M${x - size} ${y - size}l${size * 2} ${size * 2}m${-size * 2} 0l${size * 2} ${-size * 2}`}>{inner}</path>;
    case 'ring':
    case 'circle':
      return <circle {...common} cx={x} cy={y} r={size}>{inner}</circle>;
  }
}
