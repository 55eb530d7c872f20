// `forkful bench`: one run of the load generator. The command adds plots to the page's document; a document that
// was only printed as JSON has none, and the plots are made from its windows and its spectrum.

import { asList, asNumber, asObject, asText, at, type Document, type JsonObject, type LinePoint, type Plot, type Scalar, type Table } from '../document';
import { number, quantity } from '../format';
import { scalarNumber } from './common';

const SPREAD: [string, string][] = [
  ['samples', 'samples'], ['mean', 'mean'], ['min', 'min'], ['p50', 'p50'], ['p90', 'p90'], ['p99', 'p99'], ['p999', 'p99.9'], ['max', 'max'],
];

export function adaptBench(json: JsonObject, page: Document): void {
  page.tables.push(summary(json), ...thresholds(json), latencies(json), ...errors(json), ...urls(json), ...workers(json));
  const [rate, p50, p99, failed] = [at(json, 'requests', 'per_second'), at(json, 'latency_ms', 'p50'), at(json, 'latency_ms', 'p99'), at(json, 'errors', 'total')].map(asNumber);
  if (rate !== undefined) page.tiles.push({ label: 'requests/s', value: number(rate) });
  if (p50 !== undefined) page.tiles.push({ label: 'p50', value: quantity(p50, 'ms') });
  if (p99 !== undefined) page.tiles.push({ label: 'p99', value: quantity(p99, 'ms') });
  if (failed !== undefined) page.tiles.push({ label: 'errors', value: number(failed) });
  if (asList(json.plots).length === 0) page.plots.push(...plots(json));
}

function summary(json: JsonObject): Table {
  const received = asNumber(at(json, 'bytes', 'received_per_second'));
  const statuses = Object.entries(asObject(json.statuses)).map(([status, count]) => `${status}: ${asText(count)}`).join(', ');
  return {
    title: 'The run', note: '', emphasis: undefined,
    columns: ['requests/s', 'requests', 'errors', 'seconds', 'connections', 'received, MB/s', 'generator CPU/request, µs', 'statuses'],
    rows: [[
      scalarNumber(at(json, 'requests', 'per_second')), scalarNumber(at(json, 'requests', 'completed')), scalarNumber(at(json, 'errors', 'total')),
      scalarNumber(json.duration_s), scalarNumber(at(json, 'connections', 'reached')), received === undefined ? null : received / 1e6,
      scalarNumber(at(json, 'generator', 'cpu_us_per_request')), statuses,
    ]],
  };
}

const spreadRow = (name: string, spread: unknown): Scalar[] => [name, ...SPREAD.map(([key]) => scalarNumber(asObject(spread)[key]))];

function latencies(json: JsonObject): Table {
  const phases = Object.entries(asObject(json.phases_ms)).filter(([, spread]) => (asNumber(asObject(spread).samples) ?? 0) > 0);
  return {
    title: 'Latency, ms', emphasis: 0, note: asText(json.latency_meaning),
    columns: ['', ...SPREAD.map(([, name]) => name)],
    rows: [spreadRow('response', json.latency_ms), ...phases.map(([name, spread]) => spreadRow(name.replaceAll('_', ' '), spread))],
  };
}

function thresholds(json: JsonObject): Table[] {
  const word = (kept: unknown): string => (kept === true ? 'kept' : kept === false ? 'missed' : 'cannot be judged');
  const rows = asList(json.thresholds).map(asObject).map((one): Scalar[] => [asText(one.expectation), asText(one.found), word(one.kept)]);
  return rows.length === 0 ? [] : [{ title: 'Expectations', note: '', columns: ['expected', 'found', ''], rows }];
}

function errors(json: JsonObject): Table[] {
  const rows = asList(at(json, 'errors', 'causes')).map(asObject).map((one): Scalar[] => [
    asText(one.words) || asText(one.cause), scalarNumber(one.count), asText(at(asList(one.examples)[0], 'detail')), asText(one.hint),
  ]);
  return rows.length === 0 ? [] : [{ title: 'Errors by cause', note: '', columns: ['cause', 'requests', 'an example', 'what to do'], rows }];
}

function urls(json: JsonObject): Table[] {
  const rows = asList(json.urls).map(asObject).map((one): Scalar[] => [
    asText(one.name), scalarNumber(one.completed), scalarNumber(one.errors), ...SPREAD.slice(1).map(([key]) => scalarNumber(at(one, 'latency_ms', key))),
  ]);
  return rows.length < 2 ? [] : [{ title: 'By request', note: 'Latency in ms.', columns: ['', 'completed', 'errors', ...SPREAD.slice(1).map(([, name]) => name)], rows }];
}

function workers(json: JsonObject): Table[] {
  const rows = asList(at(json, 'workers', 'workers')).map(asObject).map((one): Scalar[] => [
    asText(one.name), scalarNumber(one.requests), scalarNumber(one.connections), scalarNumber(one.cpu_seconds),
  ]);
  return rows.length === 0 ? [] : [{ title: 'By worker', note: asText(at(json, 'workers', 'source')), columns: ['', 'requests', 'connections', 'CPU, s'], rows }];
}

function plots(json: JsonObject): Plot[] {
  const windows = asList(json.windows).map(asObject);
  const line = (of: (window: JsonObject) => number | undefined): LinePoint[] => windows.flatMap((window) => {
    const [x, y] = [asNumber(window.at_s), of(window)];
    return x === undefined || y === undefined ? [] : [{ x, y }];
  });
  const spectrum = asList(json.spectrum).flatMap((pair): LinePoint[] => {
    const [x, y] = asList(pair).map(asNumber);
    return x === undefined || y === undefined ? [] : [{ x, y }];
  });
  const rate = line((window) => (asNumber(window.completed) ?? 0) / (asNumber(window.length_s) || 1));
  const percentiles = ['p50_ms', 'p99_ms'].map((key) => ({ name: key.replace('_ms', ''), points: line((window) => asNumber(window[key])) }));
  const made: Plot[] = [
    { type: 'percentiles', title: 'Latency by percentile', note: asText(json.latency_meaning), unit: 'ms', series: [{ name: 'response', points: spectrum }] },
    { type: 'timeline', title: 'Requests per second', note: '', unit: 'requests/s', fromZero: true, marks: [], series: [{ name: 'requests per second', points: rate }] },
    { type: 'timeline', title: 'Latency over time', note: '', unit: 'ms', fromZero: true, marks: [], series: percentiles.filter((one) => one.points.length > 0) },
  ];
  return made.filter((plot) => 'series' in plot && plot.series.some((one) => one.points.length > 0));
}
