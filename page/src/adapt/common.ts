// What the documents of several kinds have in common.

import { asList, asNumber, asObject, asText, type JsonObject, type LinePoint, type Scalar, type Tile, type TrustCheck } from '../document';
import { number, quantity } from '../format';
import { pair, words } from '../read';

/** `[percentile, ms]` with percentiles in percent → shares of one. */
export function spectrum(value: unknown): LinePoint[] {
  return asList(value).flatMap((pair) => {
    const [percent, latency] = asList(pair).map(asNumber);
    return percent === undefined || latency === undefined ? [] : [{ x: percent / 100, y: latency }];
  });
}

export const scalarNumber = (value: unknown): Scalar => asNumber(value) ?? null;

/** A share between two ends: `[low, high]`. */
export function interval(value: unknown): { low?: number; high?: number } {
  const [low, high] = asList(value).map(asNumber);
  return { low, high };
}

/** Throughput and tail of an arm, in large type. */
export function tilesOfArm(name: string, perSecond: unknown, p99Ms: unknown): Tile[] {
  const [rate, p99] = [asNumber(perSecond), asNumber(p99Ms)];
  const tiles = rate === undefined ? [] : [{ label: `requests/s, ${name}`, value: number(rate) }];
  return p99 === undefined ? tiles : [...tiles, { label: `p99, ${name}`, value: quantity(p99, 'ms') }];
}

/** The trust box of compare and tune: notes, and figures of the generator and the machine. */
export function checksOfNotes(trust: JsonObject): TrustCheck[] {
  const checks: TrustCheck[] = [];
  const saturated = trust.generator_saturated;
  if (typeof saturated === 'boolean') {
    const cores = asNumber(trust.generator_cores_used);
    checks.push({
      name: 'Load generator has room', ok: !saturated, value: cores === undefined ? '' : `${cores.toFixed(2)} cores used`, limit: '',
      meaning: saturated ? 'The generator was the limit: the result describes the generator, not the app.' : '',
    });
  }
  const resolution = asNumber(trust.resolution_percent);
  if (resolution !== undefined) {
    checks.push({
      name: 'What this run can resolve', ok: null, value: `differences above ${resolution.toFixed(1)} %`, limit: '',
      meaning: 'Smaller differences disappear in the noise between blocks.',
    });
  }
  for (const note of asList(trust.notes).map(asObject)) {
    const name = words(asText(note.code));
    checks.push({ name: name.charAt(0).toUpperCase() + name.slice(1), ok: note.level === 'warning' ? false : null, value: '', limit: '', meaning: asText(note.text) });
  }
  return checks;
}

/** `created_at_ms` or `created_at` as an unambiguous date. */
export function createdAt(json: JsonObject): string {
  const ms = asNumber(json.created_at_ms);
  if (ms !== undefined) {
    const date = new Date(ms);
    return Number.isNaN(date.getTime()) ? '' : date.toISOString().replace('T', ' ').slice(0, 16).concat(' UTC');
  }
  return asText(json.created_at);
}

/** The requested settings as `key=value`, for the environment. */
export const prefixed = (prefix: string, value: unknown): [string, string][] =>
  Object.entries(asObject(value)).flatMap(([key, entry]): [string, string][] => {
    const [name, text] = pair(key, entry);
    return text === '' ? [] : [[`${prefix}${name}`, text]];
  });
