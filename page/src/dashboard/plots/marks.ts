// Events as marks on plots: each kind has its own sign, so that no information depends on colour alone.

import type { Happening } from '../types';

export type Mark = { at: number; sign: string; label: string };

const SIGNS: Record<string, [string, string]> = {
  exit: ['✕', 'crash'], 'restart overlimit': ['✕', 'given up'], restart: ['↻', 'restart'], reload: ['⇄', 'reload'], stop: ['■', 'stop'], start: ['▶', 'start'],
};

/** Marks of one kind within this many seconds are one. */
const TOGETHER_S = 5;

export function marksOf(events: Happening[]): Mark[] {
  const marks: (Mark & { count: number })[] = [];
  for (const event of events) {
    const kind = event.event === 'exit' && event.manually ? undefined : SIGNS[event.event];
    if (!kind) continue;
    const [sign, label] = kind;
    const at = event.at_ms / 1000;
    const near = marks.findLast((mark) => mark.sign === sign && at - mark.at < TOGETHER_S);
    if (near) near.count += 1;
    else marks.push({ at, sign, label, count: 1 });
  }
  return marks.map(({ count, label, ...mark }) => ({ ...mark, label: count > 1 ? `${label} ×${count}` : label }));
}
