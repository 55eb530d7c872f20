// The stall ledger of an app: when and where its event loops stood still.

import { useRepeated } from './repeated';

export type Cost = { stalls: number; stalled_ms: number; longest_ms: number; requests: number; waited_ms: number };
type Place = { route?: string | null; function?: string | null };
export type Stall = Place & { at_ms: number; pm_id: number; for_ms: number; requests: number; waited_ms: number };
export type StallGroup = Place & Cost;
export type Standing = { pm_id: number; for_ms: number; doing: string };
export type Ledger = { threshold_ms: number; total: Cost; groups: StallGroup[]; others: Cost; recent: Stall[]; standing: Standing[] };

const EVERY_MS = 3000;

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
const hasNumbers = (value: unknown, ...names: string[]): value is Record<string, unknown> => isObject(value) && names.every((name) => typeof value[name] === 'number');
const isPlace = (value: Record<string, unknown>): boolean => ['route', 'function'].every((name) => value[name] === undefined || value[name] === null || typeof value[name] === 'string');
const isCost = (value: unknown): value is Cost => hasNumbers(value, 'stalls', 'stalled_ms', 'longest_ms', 'requests', 'waited_ms');
const isGroup = (value: unknown): value is StallGroup => isCost(value) && isPlace(value as Record<string, unknown>);
const isStall = (value: unknown): value is Stall => hasNumbers(value, 'at_ms', 'pm_id', 'for_ms', 'requests', 'waited_ms') && isPlace(value);
const isStanding = (value: unknown): value is Standing => hasNumbers(value, 'pm_id', 'for_ms') && typeof value.doing === 'string';

/** The entries of the right shape. */
const only = <T>(value: unknown, is: (one: unknown) => one is T): T[] => (Array.isArray(value) ? value.filter(is) : []);

/** The ledger of an app in a reply; null if there is none. */
export function ledgerOf(reply: unknown, app: string): Ledger | null {
  const found = only(isObject(reply) ? reply.apps : null, isObject).find((one) => one.app === app);
  if (!hasNumbers(found, 'threshold_ms') || !isCost(found.total) || !isCost(found.others)) return null;
  const { threshold_ms, total, others } = found as Ledger;
  return { threshold_ms, total, others, groups: only(found.groups, isGroup), recent: only(found.recent, isStall), standing: only(found.standing, isStanding) };
}

/** The ledger of an app, requested repeatedly while the page is visible. */
export function useLedger(app: string): { ledger: Ledger | null; fault: string } {
  const { answer, fault } = useRepeated({
    path: () => (app === '' ? null : `stalls/${encodeURIComponent(app)}`),
    every_ms: EVERY_MS,
    read: (reply) => ledgerOf(reply, app),
    unreadable: 'The stalls cannot be read.',
  }, [app]);
  return { ledger: answer, fault };
}
