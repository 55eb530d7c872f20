// Reads plots, tables and the trust box from JSON of unknown shape.

import {
  asList, asNumber, asObject, asText, isObject, isScalar,
  type Axis, type Json, type Plot, type Scalar, type Series, type Table, type TrustCheck,
} from './document';
import { quantity } from './format';

/** The maximum number of points of a plot; more could not be distinguished. */
const POINTS_MAX = 4000;

export function readPlots(value: unknown): Plot[] {
  return asList(value).flatMap((entry) => {
    const plot = readPlot(asObject(entry));
    return plot ? [plot] : [];
  });
}

function readPlot(json: { [key: string]: Json }): Plot | null {
  const base = { title: asText(json.title), note: asText(json.note) };
  const unit = asText(json.unit);
  const plot = ((): Plot | null => {
    switch (json.type) {
      case 'blocks': return { ...base, type: 'blocks', unit, better: json.better === 'lower' ? 'lower' : 'higher', isGeometric: false, points: readBlocks(json.points) };
      case 'intervals': return { ...base, type: 'intervals', unit: unit || '×', reference: asNumber(json.reference) ?? 1, rows: readRows(json.rows) };
      case 'percentiles': return { ...base, type: 'percentiles', unit: unit || 'ms', series: readSeries(json.series) };
      case 'rate_latency': return {
        ...base, type: 'lines', series: readSeries(json.series),
        x: readAxis(json.x, { label: 'offered rate', unit: 'requests/s', log: false }),
        y: readAxis(json.y, { label: 'latency', unit: 'ms', log: true }),
      };
      case 'lines': return { ...base, type: 'lines', x: readAxis(json.x), y: readAxis(json.y), series: readSeries(json.series) };
      case 'timeline': return {
        ...base, type: 'timeline', unit, fromZero: json.from_zero !== false, series: readSeries(json.series),
        marks: asList(json.marks).map(asObject).flatMap((mark) => {
          const at = asNumber(mark.at);
          return at === undefined ? [] : [{ at, label: asText(mark.label) }];
        }),
      };
      case 'workers': return readWorkers(json, base, unit);
      case 'breakdown': return {
        ...base, type: 'breakdown', unit, parts: asList(json.parts).map(asText),
        rows: asList(json.rows).map(asObject).map((row) => ({
          name: asText(row.name), values: asList(row.values).map((value) => Math.max(0, asNumber(value) ?? 0)),
        })),
      };
      case 'bars': return { ...base, type: 'bars', unit, rows: readRows(json.rows) };
      case 'scatter': return {
        ...base, type: 'scatter', x: readAxis(json.x), y: readAxis(json.y),
        points: asList(json.points).map(asObject).flatMap((point) => {
          const [x, y] = [asNumber(point.x), asNumber(point.y)];
          if (x === undefined || y === undefined) return [];
          return [{
            name: asText(point.name), x, y, low: asNumber(point.low), high: asNumber(point.high),
            chosen: point.chosen === true, dominated: point.dominated === true,
          }];
        }),
      };
      default: return null;
    }
  })();
  return plot && !isEmpty(plot) ? plot : null;
}

function isEmpty(plot: Plot): boolean {
  if ('series' in plot) return plot.series.length === 0;
  if ('points' in plot) return plot.points.length === 0;
  return plot.rows.length === 0;
}

function readWorkers(json: { [key: string]: Json }, base: { title: string; note: string }, unit: string): Plot {
  const usl = asObject(json.usl);
  const [lambda, sigma, kappa] = [asNumber(usl.lambda), asNumber(usl.sigma), asNumber(usl.kappa)];
  return {
    ...base, type: 'workers', unit, chosen: asNumber(json.chosen), bandPercent: asNumber(json.band_percent) ?? 2,
    usl: lambda !== undefined && sigma !== undefined && kappa !== undefined ? { lambda, sigma, kappa } : undefined,
    points: asList(json.points).map(asObject).flatMap((point) => {
      const [workers, value] = [asNumber(point.workers), asNumber(point.value)];
      if (workers === undefined || value === undefined) return [];
      const raw = asList(point.raw).map(asNumber).filter((number) => number !== undefined);
      return [{ workers, value, low: asNumber(point.low), high: asNumber(point.high), raw }];
    }).sort((a, b) => a.workers - b.workers),
  };
}

function readBlocks(value: unknown) {
  return asList(value).map(asObject).flatMap((point) => {
    const [block, number] = [asNumber(point.block), asNumber(point.value)];
    if (block === undefined || number === undefined) return [];
    return [{ arm: asText(point.arm), block, value: number, disturbed: point.disturbed === true, counted: point.counted !== false }];
  }).slice(0, POINTS_MAX);
}

function readRows(value: unknown) {
  return asList(value).map(asObject).flatMap((row) => {
    const number = asNumber(row.value);
    if (number === undefined) return [];
    return [{ name: asText(row.name), value: number, low: asNumber(row.low), high: asNumber(row.high), note: asText(row.note) }];
  });
}

function readAxis(value: unknown, otherwise: Axis = { label: '', unit: '', log: false }): Axis {
  const json = asObject(value);
  return {
    label: asText(json.label) || otherwise.label,
    unit: asText(json.unit) || otherwise.unit,
    log: typeof json.log === 'boolean' ? json.log : otherwise.log,
  };
}

export function readSeries(value: unknown): Series[] {
  return asList(value).map(asObject).flatMap((json) => {
    const points = asList(json.points).flatMap((point) => {
      const [x, y, low, high] = asList(point).map(asNumber);
      return x === undefined || y === undefined ? [] : [{ x, y, low, high }];
    }).slice(0, POINTS_MAX).sort((a, b) => a.x - b.x);
    return points.length === 0 ? [] : [{ name: asText(json.name), points, samples: asNumber(json.samples) }];
  });
}

export function readTables(value: unknown): Table[] {
  return asList(value).map(asObject).flatMap((json) => {
    const columns = asList(json.columns).map(asText);
    const rows = asList(json.rows).map((row) => asList(row).map((cell): Scalar => (isScalar(cell) ? cell : null)));
    if (columns.length === 0 || rows.length === 0) return [];
    return [{ title: asText(json.title), note: asText(json.note), columns, rows, emphasis: asNumber(json.emphasis) }];
  });
}

export function readChecks(value: unknown): TrustCheck[] {
  const list = isObject(value) ? asList(value.checks) : asList(value);
  return list.map(asObject).filter((check) => asText(check.name) !== '').map((check) => ({
    name: asText(check.name), ok: typeof check.ok === 'boolean' ? check.ok : null,
    value: asText(check.value), limit: asText(check.limit), meaning: asText(check.meaning),
  }));
}

/** A table of objects: one row each, one column for every key that holds scalars. */
export function tableOfObjects(title: string, value: unknown, note = ''): Table[] {
  const objects = asList(value).filter(isObject);
  const keys = [...new Set(objects.flatMap((object) => Object.keys(object).filter((key) => isScalar(object[key]))))];
  if (objects.length === 0 || keys.length === 0) return [];
  const rows = objects.map((object) => keys.map((key): Scalar => {
    const cell = object[key];
    return isScalar(cell) ? cell : null;
  }));
  return [{ title, note, columns: keys.map(words), rows }];
}

/** `requests_per_second` → `requests per second`. */
export const words = (key: string): string => key.replaceAll('_', ' ');

/** The environment as pairs; objects inside are flattened by one level. */
export function readPairs(value: unknown): [string, string][] {
  return Object.entries(asObject(value)).flatMap(([key, entry]): [string, string][] => {
    if (isObject(entry)) {
      return Object.entries(entry).filter(([, inner]) => isScalar(inner) || Array.isArray(inner))
        .map(([inner, cell]) => {
          const [name, text] = pair(inner, cell);
          return [`${words(key)}: ${name}`, text];
        });
    }
    return [pair(key, entry)];
  }).filter(([, text]) => text !== '');
}

/** A key that ends in its unit gives it to the value: `memory_bytes: 1048576` → `memory`, `1 MiB`. */
export function pair(key: string, value: Json | undefined): [string, string] {
  const number = asNumber(value);
  const unit = /_(bytes|ms|s|us|percent)$/.exec(key)?.[1];
  if (number === undefined || unit === undefined) return [words(key), listText(value)];
  const name = words(key.slice(0, -unit.length - 1));
  return [name, quantity(number, { us: 'µs', percent: '%' }[unit] ?? unit)];
}

const listText = (value: Json | undefined): string =>
  Array.isArray(value) ? value.filter(isScalar).map(asText).join(', ') : asText(value);
