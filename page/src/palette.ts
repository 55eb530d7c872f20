// Colours, shapes and dashes. An arm has the same in every plot of the page; other names get them by their place
// in the plot. Colour-blind readers can distinguish the colours; shapes and dashes show the same without colour.

const SLOTS = 6;
export const SHAPES = ['circle', 'square', 'triangle', 'diamond', 'cross', 'ring'] as const;
export type Shape = (typeof SHAPES)[number];
const DASHES: number[][] = [[], [7, 4], [2, 3], [10, 3, 2, 3], [5, 2], [1, 2]];

const arms = new Map<string, number>();

/** Gives arms their places, in their order. */
export function claim(names: string[]): void {
  for (const name of names) if (name !== '' && !arms.has(name)) arms.set(name, arms.size);
}

/** The place in the palette of a name that is at `index` in its plot. */
const slot = (name: string, index: number): number => arms.get(name) ?? index;

export const color = (name: string, index: number): string => `var(--series-${slot(name, index) % SLOTS})`;
export const shape = (name: string, index: number): Shape => SHAPES[slot(name, index) % SHAPES.length] ?? 'circle';
export const dash = (name: string, index: number): number[] => DASHES[slot(name, index) % DASHES.length] ?? [];

/** The present value of a CSS variable; canvases cannot use variables themselves. */
export const resolved = (variable: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
export const resolvedColor = (name: string, index: number): string => resolved(`--series-${slot(name, index) % SLOTS}`);
