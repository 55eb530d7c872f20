// Incidents: the daemon keeps them, so those of before the page was opened are known too.

import { ask } from './session';
import type { Happening, Incident, IncidentDetails } from './types';

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
export const isIncident = (value: unknown): value is Incident =>
  isObject(value) && ['id', 'at_ms'].every((name) => typeof value[name] === 'number') && ['kind', 'app', 'reason'].every((name) => typeof value[name] === 'string');

/** All incidents that the daemon keeps: at most 200. */
export async function listed(): Promise<Incident[]> {
  const reply: unknown = await (await ask('incidents')).json();
  return isObject(reply) && Array.isArray(reply.incidents) ? reply.incidents.filter(isIncident) : [];
}

/** One incident with its details. */
export async function details(id: string): Promise<IncidentDetails> {
  const reply: unknown = await (await ask(`incidents/${encodeURIComponent(id)}`)).json();
  if (!isIncident(reply)) throw new Error('The incident cannot be read.');
  const { stderr_tail: tail, metrics, ...rest } = reply as Partial<IncidentDetails> & Incident;
  const lines = Array.isArray(tail) ? tail.filter((line) => typeof line === 'string') : [];
  const known = isObject(metrics) ? Object.entries(metrics).filter((pair): pair is [string, number] => typeof pair[1] === 'number') : [];
  return { ...rest, stderr_tail: lines, metrics: Object.fromEntries(known) };
}

const WORDS: Record<string, string> = {
  crash: 'crashed', crash_loop: 'crashed too often', failed_reload: 'could not be reloaded', unhealthy: 'failed its health checks', stuck: 'stood still and was killed',
  disk_full: 'cannot write its log', scaled_up: 'got more workers', scaled_down: 'got fewer workers', not_scaled_up: 'is busy, but gets no more workers',
  deployed: 'was deployed',
  fix_tried: 'was changed by forkful doctor --fix', fix_reverted: 'was changed back by forkful doctor --fix',
};
const ROUTINE = ['scaled_up', 'scaled_down', 'not_scaled_up', 'fix_tried', 'fix_reverted', 'deployed'];

export const wordsOf = ({ kind }: Incident): string => WORDS[kind] ?? kind;
export const isFault = ({ kind }: Incident): boolean => !ROUTINE.includes(kind);

/** An incident is written down shortly after its event. */
const SAME_MS = 5000;
const ENDS = ['crash', 'crash_loop', 'stuck', 'unhealthy'];

/** Whether an incident tells the same as this event, and more. */
export const isTold = (event: Happening, incidents: Incident[]): boolean =>
  ((event.event === 'exit' && !event.manually) || event.event === 'restart overlimit')
  && incidents.some(({ kind, app, pm_id, at_ms }) => ENDS.includes(kind) && app === event.app && pm_id === event.pm_id && Math.abs(at_ms - event.at_ms) < SAME_MS);
