// Events and incidents as marks on plots: each kind has its own sign, so that no information depends on colour alone.

import { isTold } from '../incidents';
import { to } from '../route';
import type { Happening, Incident, Worker } from '../types';

/** `href`: the view with its details. */
export type Mark = { at: number; sign: string; label: string; href?: string };

const SIGNS: Record<string, [string, string]> = {
  exit: ['✕', 'crash'], 'restart overlimit': ['✕', 'given up'], restart: ['↻', 'restart'], reload: ['⇄', 'reload'], stop: ['■', 'stop'], start: ['▶', 'start'],
};
const INCIDENTS: Record<string, [string, string]> = {
  crash: ['✕', 'crash'], crash_loop: ['✕', 'given up'], stuck: ['✕', 'stuck'], unhealthy: ['✕', 'unhealthy'], failed_reload: ['⇄', 'failed reload'],
  disk_full: ['▤', 'disk full'], scaled_up: ['▲', 'scaled up'], scaled_down: ['▼', 'scaled down'], fix_tried: ['◆', 'fix tried'], fix_reverted: ['◇', 'fix reverted'], deployed: ['●', 'deployed'],
};

/** Marks of one kind within this many seconds are one. */
const TOGETHER_S = 5;

/** What happened to an app, or to some of its workers. */
export type Happened = { events: Happening[]; incidents: Incident[]; workers: Worker[] };

export function marksOf({ events, incidents, workers }: Happened): Mark[] {
  const all: Mark[] = [];
  for (const { id, at_ms, kind } of incidents) {
    const [sign, label] = INCIDENTS[kind] ?? [];
    if (sign !== undefined && label !== undefined) all.push({ at: at_ms / 1000, sign, label, href: to('incident', id) });
  }
  for (const event of events) {
    const [sign, label] = (event.event === 'exit' && event.manually) || isTold(event, incidents) ? [] : SIGNS[event.event] ?? [];
    if (sign !== undefined && label !== undefined) all.push({ at: event.at_ms / 1000, sign, label });
  }
  // Events of before the page was opened are not known, but the last start of each worker is: by a command, a reload or a deployment.
  const isExplained = (at: number) => all.some((mark) => Math.abs(mark.at - at) < TOGETHER_S);
  const starts = workers.flatMap(({ started_at_ms }) => (started_at_ms === undefined ? [] : [started_at_ms / 1000]));
  all.push(...starts.filter((at) => !isExplained(at)).map((at) => ({ at, sign: '▶', label: 'worker started' })));
  return together(all.sort((a, b) => a.at - b.at));
}

function together(all: Mark[]): Mark[] {
  const marks: (Mark & { count: number })[] = [];
  for (const mark of all) {
    const near = marks.findLast(({ label, at }) => label === mark.label && mark.at - at < TOGETHER_S);
    if (near) near.count += 1;
    else marks.push({ ...mark, count: 1 });
  }
  return marks.map(({ count, label, ...mark }) => ({ ...mark, label: count > 1 ? `${label} ×${count}` : label }));
}
