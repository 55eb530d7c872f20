// `forkful compare`: arms, blocks, comparisons → plots and tables.

import { asList, asNumber, asObject, asText, at, isObject, type Document, type Json, type JsonObject, type Plot, type Scalar, type Series, type Table } from '../document';
import { checksOfNotes, interval, scalarNumber, spectrum, tilesOfArm } from './common';

const percentLoad = (load: number): string => `${Math.round(load * 100)} %`;

export function adaptCompare(json: JsonObject, page: Document): void {
  const arms = asList(json.arms).map(asObject);
  const comparisons = asList(json.comparisons).map(asObject);
  const sentences = comparisons.map((comparison) => asText(comparison.sentence)).filter(Boolean);
  page.headline ||= sentences[0] ?? '';
  page.details.push(...sentences.filter((sentence) => sentence !== page.headline));
  page.word = wordOf(json, page.word || asText(comparisons[0]?.verdict));
  page.tables.push(...armsTable(arms));
  page.tiles.push(...arms.flatMap((arm) => tilesOfArm(asText(arm.name), at(arm, 'throughput', 'per_second'), latencyOf(arm))));
  const plots: (Plot | null)[] = [
    blocks(json), effects(comparisons), ...spectra(arms), rateLatency(arms), capacity(json, arms), timeline(json, arms), service(arms),
  ];
  page.plots.push(...plots.filter((plot) => plot !== null));
  page.checks.push(...checksOfNotes(asObject(json.trust)));
}

/** The word of the headline: with several arms that is about the best arm, not about the first comparison. */
function wordOf(json: JsonObject, first: string): string {
  if (!isObject(json.best)) return first;
  const leads = asList(json.best.leads).map(asObject);
  return leads.length > 0 && leads.every((lead) => lead.verdict === 'faster') ? 'faster' : '';
}

/** The p99 at the highest rate; none if the arm was overloaded. */
function latencyOf(arm: JsonObject): Json | undefined {
  const highest = asObject(asList(arm.latency).at(-1));
  return highest.overloaded === true ? undefined : highest.p99_ms;
}

function armsTable(arms: JsonObject[]): Table[] {
  if (arms.length === 0) return [];
  const highest = (arm: JsonObject): JsonObject => asObject(asList(arm.latency).at(-1));
  // For an overloaded arm, percentiles only show for how long it was loaded.
  const latency = (arm: JsonObject, key: string): Scalar => (highest(arm).overloaded === true ? 'overload' : scalarNumber(highest(arm)[key]));
  const rows = arms.map((arm): Scalar[] => [
    asText(arm.label) || asText(arm.name),
    scalarNumber(arm.workers),
    scalarNumber(at(arm, 'throughput', 'per_second')),
    latency(arm, 'p50_ms'),
    latency(arm, 'p99_ms'),
    scalarNumber(arm.cpu_per_request_us),
    asNumber(arm.memory_bytes) === undefined ? null : (asNumber(arm.memory_bytes) ?? 0) / 1048576,
    scalarNumber(at(arm, 'errors', 'total')),
  ]);
  const rate = asNumber(highest(arms[0] ?? {}).rate);
  const atRate = rate === undefined ? '' : ` at ${Math.round(rate).toLocaleString('en')}/s`;
  return [{
    title: 'The arms', note: '', emphasis: undefined,
    columns: ['', 'workers', 'requests/s', `p50${atRate}, ms`, `p99${atRate}, ms`, 'CPU/request, µs', 'memory, MiB', 'errors'], rows,
  }];
}

function blocks(json: JsonObject): Plot | null {
  const points = asList(json.blocks).map(asObject).flatMap((block) => {
    const disturbed = asText(block.disturbed) !== '';
    const counted = !disturbed || block.counted === true;
    return Object.entries(asObject(block.arms)).flatMap(([arm, measured]) => {
      const [number, value] = [asNumber(block.number), asNumber(asObject(measured).per_second)];
      return number === undefined || value === undefined ? [] : [{ arm, block: number, value, disturbed, counted }];
    });
  });
  const disturbed = asList(json.blocks).map(asObject).filter((block) => asText(block.disturbed) !== '');
  const fate = disturbed.some((block) => block.counted === true) ? 'but used because no clean ones were available' : 'and not counted';
  const note = disturbed.length === 0 ? '' :
    `One dot per block and arm; lines join what was measured side by side. Hollow: disturbed ${fate} (${asText(disturbed[0]?.disturbed)}).`;
  return points.length === 0 ? null : { type: 'blocks', title: 'Requests per second, every block', note, unit: 'requests/s', better: 'higher', isGeometric: true, points: ordered(points, json) };
}

/** In the order of the arms, not of the blocks, which is random. */
function ordered<T extends { arm: string }>(points: T[], json: JsonObject): T[] {
  const order = asList(json.arms).map((arm) => asText(asObject(arm).name));
  return points.toSorted((a, b) => order.indexOf(a.arm) - order.indexOf(b.arm));
}

function effects(comparisons: JsonObject[]): Plot | null {
  const rows = comparisons.flatMap((comparison) => {
    const pair = comparisons.length > 1 ? ` (${asText(comparison.arm)} ÷ ${asText(comparison.baseline)})` : '';
    const row = (name: string, effect: unknown) => {
      const value = asNumber(asObject(effect).ratio);
      return value === undefined ? [] : [{ name: name + pair, value, ...interval(asObject(effect).ci95), note: '' }];
    };
    const latency = Object.entries(asObject(comparison.latency)).flatMap(([percentile, effect]) => {
      const load = asNumber(asObject(effect).load);
      return row(`${percentile}${load === undefined ? '' : ` at ${percentLoad(load)} load`}`, effect);
    });
    return [...row('requests/s', comparison.throughput), ...latency, ...row('CPU per request', comparison.cpu_per_request), ...row('memory', comparison.memory)];
  });
  const first = comparisons[0];
  const note = first && `${asText(first.arm)} ÷ ${asText(first.baseline)}, with 95 % confidence intervals. More requests are better; less latency, CPU and memory are.`;
  return rows.length === 0 ? null : { type: 'intervals', title: 'How large the differences are', note: note ?? '', unit: '×', reference: 1, rows };
}

function spectra(arms: JsonObject[]): Plot[] {
  const loads = [...new Set(arms.flatMap((arm) => asList(arm.latency).map((entry) => asNumber(asObject(entry).load))))].filter((load) => load !== undefined);
  return loads.flatMap((load): Plot[] => {
    const rates = new Set<number>();
    const series = arms.flatMap((arm): Series[] => {
      const entry = asList(arm.latency).map(asObject).find((candidate) => candidate.load === load);
      const points = entry?.overloaded === true ? [] : spectrum(entry?.spectrum);
      const rate = asNumber(entry?.rate);
      if (rate !== undefined) rates.add(Math.round(rate));
      return points.length === 0 ? [] : [{ name: asText(arm.name), points, samples: asNumber(entry?.samples) }];
    });
    if (series.length === 0) return [];
    const rate = rates.size === 1 ? `${[...rates][0]?.toLocaleString('en')} requests/s` : 'the same rate';
    return [{
      type: 'percentiles', title: `Latency at ${rate}`, unit: 'ms', series,
      note: `Both arms get the same requests at the same times: ${percentLoad(load)} of the capacity of the weaker arm. Each further nine has the same width. Lower is better.`,
    }];
  });
}

function rateLatency(arms: JsonObject[]): Plot | null {
  const series = arms.flatMap((arm): Series[] => {
    const points = asList(arm.latency).map(asObject).flatMap((entry) => {
      const [x, y] = [asNumber(entry.rate), asNumber(entry.p99_ms)];
      return x === undefined || y === undefined || entry.overloaded === true ? [] : [{ x, y }];
    });
    return points.length < 2 ? [] : [{ name: asText(arm.name), points: points.sort((a, b) => a.x - b.x) }];
  });
  return series.length === 0 ? null : {
    type: 'lines', title: 'p99 over the offered rate', note: '', series,
    x: { label: 'offered rate', unit: 'requests/s', log: false }, y: { label: 'p99', unit: 'ms', log: true },
  };
}

function capacity(json: JsonObject, arms: JsonObject[]): Plot | null {
  const series = arms.flatMap((arm): Series[] => {
    const points = asList(json.capacity).map(asObject).filter((step) => step.arm === arm.name).flatMap((step) => {
      const [x, y] = [asNumber(step.connections), asNumber(step.per_second)];
      return x === undefined || y === undefined ? [] : [{ x, y }];
    }).sort((a, b) => a.x - b.x);
    return points.length < 2 ? [] : [{ name: asText(arm.name), points }];
  });
  const isForLatency = asText(at(json, 'target', 'beside')).endsWith(' while latency is measured');
  const other = isForLatency ? ' Measured beside the other route, as the latencies are; the throughput above is measured without it.' : '';
  return series.length === 0 ? null : {
    type: 'lines', title: 'Where each arm saturates', note: `More connections give more requests per second, up to the point of saturation.${other}`, series,
    x: { label: 'connections', unit: '', log: true }, y: { label: '', unit: 'requests/s', log: false },
  };
}

function timeline(json: JsonObject, arms: JsonObject[]): Plot | null {
  const series = arms.flatMap((arm): Series[] => {
    const name = asText(arm.name);
    const bins = new Map<number, number[]>();
    for (const block of asList(json.blocks)) {
      for (const pair of asList(at(block, 'arms', name, 'timeline'))) {
        const [x, y] = asList(pair).map(asNumber);
        if (x === undefined || y === undefined) continue;
        const bin = Math.round(x * 10) / 10;
        bins.set(bin, [...(bins.get(bin) ?? []), y]);
      }
    }
    const points = [...bins].map(([x, values]) => ({ x, y: values.reduce((sum, value) => sum + value, 0) / values.length })).sort((a, b) => a.x - b.x);
    return points.length < 2 ? [] : [{ name, points }];
  });
  return series.length === 0 ? null : {
    type: 'timeline', title: 'Requests per second over the window', note: 'Mean of all blocks; a slope would mean that something was still warming up.',
    unit: 'requests/s', fromZero: true, series, marks: [],
  };
}

function service(arms: JsonObject[]): Plot | null {
  const series = arms.flatMap((arm): Series[] => {
    const points = spectrum(at(arm, 'service_time', 'spectrum'));
    return points.length === 0 ? [] : [{ name: asText(arm.name), points }];
  });
  return series.length === 0 ? null : {
    type: 'percentiles', title: 'Service time at saturation', unit: 'ms', series,
    note: 'In a closed loop, a connection sends its next request after the answer to the previous one: this is how long an answer takes under full load, not how long users wait at a given rate.',
  };
}
