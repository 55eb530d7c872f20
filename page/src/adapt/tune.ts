// `forkful tune`: from the table of candidates to the curve over workers, the Pareto plot and the table.

import { asList, asNumber, asObject, asText, at, type Document, type JsonObject, type Plot, type Scalar } from '../document';
import { checksOfNotes, interval, scalarNumber, tilesOfArm } from './common';

export function adaptTune(json: JsonObject, page: Document): void {
  const rows = asList(json.table).map(asObject);
  page.headline ||= asText(at(json, 'choice', 'sentence'));
  // The command's details have the same sentence.
  if (page.details.length === 0) {
    const stability = asNumber(at(json, 'choice', 'stability'));
    page.details.push(...[asText(at(json, 'usl', 'sentence'))].filter(Boolean));
    if (stability) page.details.push(`The same choice came out in ${Math.round(stability * 100)} % of resamples of the rounds.`);
  }
  const main = rows.find((row) => row.chosen === true) ?? rows.find((row) => row.best === true);
  if (main) page.tiles.push(...tilesOfArm(nameOf(main, pools(rows).length > 1), main.per_second, main.p99_at_70_ms));
  page.plots.push(...curves(json, rows), ...pareto(rows));
  page.tables.push(...table(rows));
  const patch = asText(at(json, 'patch', 'text'));
  if (patch) page.details.push(`In ${asText(at(json, 'patch', 'file'))}: ${patch}`);
  page.checks.push(...checksOfNotes(asObject(json.trust)));
}

const nameOf = (row: JsonObject, isPoolSaid: boolean): string => {
  const workers = asNumber(row.workers) ?? 0;
  return `${workers} ${workers === 1 ? 'worker' : 'workers'}${isPoolSaid ? `, pool ${asText(row.pool)}` : ''}`;
};

const pools = (rows: JsonObject[]): number[] => [...new Set(rows.map((row) => asNumber(row.pool)).filter((pool) => pool !== undefined))];

function curves(json: JsonObject, rows: JsonObject[]): Plot[] {
  const usl = asObject(json.usl);
  const chosenPool = asNumber(at(json, 'choice', 'pool'));
  // Older documents do not say which pool the law is fitted to.
  const lawPool = asNumber(usl.pool) ?? chosenPool;
  const sizes = pools(rows);
  return (sizes.length === 0 ? [undefined] : sizes).flatMap((pool): Plot[] => {
    const own = rows.filter((row) => pool === undefined || row.pool === pool);
    const points = own.flatMap((row) => {
      const [workers, value] = [asNumber(row.workers), asNumber(row.per_second)];
      return workers === undefined || value === undefined ? [] : [{ workers, value, ...interval(row.ci95), raw: [] }];
    }).sort((a, b) => a.workers - b.workers);
    if (points.length < 2) return [];
    const [lambda, sigma, kappa] = [asNumber(usl.lambda), asNumber(usl.sigma), asNumber(usl.kappa)];
    const isOf = (other: number | undefined): boolean => pool === undefined || other === undefined || pool === other;
    return [{
      type: 'workers', unit: 'requests/s', bandPercent: 2, points, note: '',
      title: sizes.length > 1 ? `Throughput over workers, thread pool of ${pool}` : 'How throughput grows with workers',
      chosen: json.trustworthy !== false && isOf(chosenPool) ? asNumber(at(json, 'choice', 'workers')) : undefined,
      usl: isOf(lawPool) && lambda !== undefined && sigma !== undefined && kappa !== undefined ? { lambda, sigma, kappa } : undefined,
    }];
  });
}

function pareto(rows: JsonObject[]): Plot[] {
  const isPoolSaid = pools(rows).length > 1;
  const points = rows.flatMap((row) => {
    const [x, y] = [asNumber(row.memory_bytes), asNumber(row.per_second)];
    if (x === undefined || y === undefined) return [];
    return [{ name: nameOf(row, isPoolSaid), x: x / 1048576, y, ...interval(row.ci95), chosen: row.chosen === true, dominated: row.pareto === false }];
  });
  return points.length < 2 ? [] : [{
    type: 'scatter', title: 'What each choice costs and gives', note: 'Up and left is better; faint candidates are worse than another candidate on every metric.', points,
    x: { label: 'memory', unit: 'MiB', log: false }, y: { label: '', unit: 'requests/s', log: false },
  }];
}

/** The highest percentile that is known for all candidates that have percentiles: only that can be compared. */
function tailOf(rows: JsonObject[]): string {
  const tails = ['p99', 'p95', 'p90'];
  const value = (row: JsonObject, tail: string) => asNumber(row[`${tail}_at_70_ms`]);
  const known = rows.filter((row) => tails.some((tail) => value(row, tail) !== undefined));
  return tails.find((tail) => known.every((row) => value(row, tail) !== undefined)) ?? 'p99';
}

function table(rows: JsonObject[]) {
  if (rows.length === 0) return [];
  const tail = tailOf(rows);
  const chosen = rows.findIndex((row) => row.chosen === true);
  return [{
    title: 'All candidates', note: '', emphasis: chosen < 0 ? undefined : chosen,
    columns: ['workers', 'pool', 'requests/s', 'against the best, %', `${tail} at 70 % load, ms`, 'memory, MiB', 'CPU/request, µs', 'rounds', 'best in resamples, %', ''],
    rows: rows.map((row): Scalar[] => {
      const dropped = asNumber(row.dropped_in_round);
      const memory = asNumber(row.memory_bytes);
      const word = row.chosen === true ? 'chosen' : dropped !== undefined ? `dropped in round ${dropped}` : row.pareto === false ? 'worse on every metric' : '';
      return [
        scalarNumber(row.workers), scalarNumber(row.pool), scalarNumber(row.per_second), scalarNumber(row.relative_percent),
        scalarNumber(row[`${tail}_at_70_ms`]), memory === undefined ? null : memory / 1048576, scalarNumber(row.cpu_per_request_us),
        scalarNumber(row.rounds), scalarNumber(row.share_percent), word,
      ];
    }),
  }];
}
