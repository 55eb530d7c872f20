// The plots of an app, or of one of its workers, over a time range.

import { useMemo, useState } from 'preact/hooks';
import type { History, Range, Values, WorkerHistory } from '../history';
import { mean, most, over, RANGES, series, split, useHistory, weighted } from '../history';
import type { Line, PanelProps } from '../plots/Panel';
import { Panel } from '../plots/Panel';
import type { Mark } from '../plots/marks';
import { marksOf } from '../plots/marks';
import { Strip } from '../plots/Strip';
import { store } from '../store';
import type { Happening, Incident } from '../types';
import { sum, workersOf } from '../types';

/** With more lines than this, the minimum, the mean and the maximum are shown instead. */
const LINES_MAX = 6;
const COLORS = 6;

const color = (index: number): string => `--series-${index % COLORS}`;
const percent = (values: Values): Values => values.map((value) => (value === null ? null : value * 100));
const hasSome = (lines: Line[]): boolean => lines.some(({ values }) => values.some((value) => value !== null));

/** A line for each worker, or lines of all workers together. */
function each(workers: WorkerHistory[], points: number, name: string, as = (values: Values): Values => values): Line[] {
  if (workers.length <= LINES_MAX) {
    return workers.map((worker, index) => ({ name: `worker ${worker.slot}`, values: as(series(worker, name)), color: color(index), dash: index === 0 ? [] : [6, index] }));
  }
  return [
    { name: 'maximum', values: as(over(workers, points, name, most)), color: color(1) },
    { name: 'mean', values: as(over(workers, points, name, mean)), color: color(0) },
    { name: 'minimum', values: as(over(workers, points, name, (values) => Math.min(...values))), color: color(2), dash: [4, 3] },
  ];
}

const PRESSURE = 'The share of time in which at least one process had to wait for a free CPU, for memory to be freed, or for storage. A few percent are normal; much more '
  + 'makes the app slow. Measured for the app\'s control group, or for the whole machine if the app has none.';

type Content = Omit<PanelProps, 'xs' | 'marks'>;

function contents({ workers, points }: History, limit: number | undefined): Content[] {
  const parts = split(workers, points);
  const all = (name: string, merge: (values: number[]) => number) => over(workers, points, name, merge);
  const limits = all('memory_limit_bytes', (values) => Math.min(...values));
  const bound: Values = limits.some((value) => value !== null) ? limits : limit === undefined ? [] : new Array(points).fill(limit);
  return [
    {
      title: 'Where the time of the event loop goes', unit: '%', stacked: true, top: 100, note: 'The mean of the workers. The rest of 100 % is idle.',
      lines: [
        { name: 'JavaScript', values: parts.javascript, color: '--series-0' }, { name: 'garbage collection', values: parts.gc, color: '--series-3' },
        { name: 'waiting for a CPU', values: parts.waiting, color: '--series-4' }, { name: 'blocked in a call', values: parts.blocked, color: '--series-1' },
      ],
    },
    {
      title: 'Requests', unit: '/s', note: 'Errors are responses with a status of 500 or more.',
      lines: [{ name: 'requests', values: all('http_requests_per_s', sum), color: '--series-0' }, { name: 'errors', values: all('http_errors_per_s', sum), color: '--series-1', dash: [4, 3] }],
    },
    {
      title: 'Latency', unit: 'ms', note: workers.length > 1 ? 'p50 and p95 are means of the workers, weighted by their requests; p99 is that of the slowest worker.' : '',
      lines: [
        { name: 'p50', values: weighted(workers, points, 'http_latency_p50_ms'), color: '--series-2' },
        { name: 'p95', values: weighted(workers, points, 'http_latency_p95_ms'), color: '--series-0', dash: [8, 3] },
        { name: 'p99', values: all('http_latency_p99_ms', most), color: '--series-1', dash: [3, 3] },
      ],
    },
    { title: 'Memory', unit: 'bytes', lines: [...each(workers, points, 'memory_bytes'), ...(bound.length > 0 ? [{ name: 'limit', values: bound, color: '--bad', dash: [2, 2] }] : [])] },
    { title: 'Event loop delay, p99', unit: 'ms', lines: each(workers, points, 'event_loop_delay_p99_ms') },
    {
      title: 'Waiting and in progress', unit: '', note: 'Connections that no worker has accepted yet, and requests without an answer yet.',
      lines: [{ name: 'accept queue', values: all('accept_queue', sum), color: '--series-1' }, { name: 'requests in flight', values: all('http_in_flight', sum), color: '--series-0', dash: [6, 3] }],
    },
    {
      title: 'Open connections', unit: '', note: 'TCP connections that clients have open; idle ones and WebSockets count, too.',
      lines: each(workers, points, 'connections'),
    },
    { title: 'Thread pool, busy', unit: '%', top: 100, lines: each(workers, points, 'pool_busy', percent) },
    { title: 'Throttled by the CPU quota', unit: '%', lines: each(workers, points, 'cpu_throttled', percent) },
    {
      title: 'Pressure', unit: '%', top: 10, note: PRESSURE,
      lines: [
        { name: 'CPU', values: percent(all('cpu_pressure', most)), color: '--series-0' },
        { name: 'memory', values: percent(all('memory_pressure', most)), color: '--series-1', dash: [8, 3] },
        { name: 'storage', values: percent(all('io_pressure', most)), color: '--series-2', dash: [3, 3] },
      ],
    },
  ];
}

type Props = { app: string; worker?: number; events: Happening[]; incidents: Incident[]; limit?: number };

/** When each worker was started, as text: a value that changes when one of them has a new process. */
const startsOf = (app: string): string => workersOf(store.state?.apps[app] ?? { mode: '', instances: 0, workers: {} }).map(({ started_at_ms }) => started_at_ms).join();

export function Plots({ app, worker, events, incidents, limit }: Props) {
  const [range, setRange] = useState<Range>(RANGES[0] as Range);
  const { history, fault } = useHistory(app, range);
  const starts = startsOf(app);
  const marks = useMemo(() => {
    const concerns = (one: { app: string; pm_id?: number | null }) => one.app === app && (worker === undefined || one.pm_id === worker);
    const there = store.state?.apps[app];
    const workers = there ? workersOf(there).filter(({ pm_id }) => worker === undefined || pm_id === worker) : [];
    return marksOf({ events: events.filter(concerns), incidents: incidents.filter(concerns), workers });
  }, [events, incidents, app, worker, starts]);
  return (
    <>
      <div class="tools" role="group" aria-label="Time range">
        {RANGES.map((one) => <button key={one.name} type="button" aria-pressed={one === range} onClick={() => setRange(one)}>{one.name}</button>)}
      </div>
      {fault && <p class="warning" role="status">{fault}</p>}
      {history ? <Drawn history={history} worker={worker} marks={marks} limit={limit} /> : !fault && <p class="note">Loading the history.</p>}
    </>
  );
}

function Drawn({ history, worker, marks, limit }: { history: History; worker?: number; marks: Mark[]; limit?: number }) {
  const { xs, rows, panels } = useMemo(() => {
    const workers = worker === undefined ? history.workers : history.workers.filter((one) => one.pm_id === worker);
    const places = Array.from({ length: history.points }, (_, index) => (history.from_ms + index * history.step_ms) / 1000);
    return {
      xs: places,
      rows: workers.map((one) => ({ name: `worker ${one.slot}`, values: series(one, 'event_loop_utilization') })),
      panels: contents({ ...history, workers }, limit),
    };
  }, [history, worker, limit]);
  const [first, ...rest] = panels.filter(({ lines }) => hasSome(lines));
  if (!first) return <p class="note">There are no measurements for this time.</p>;
  return (
    <div class="plots">
      <Panel {...first} xs={xs} marks={marks} />
      {worker === undefined && <Strip title="Event loop of each worker" note="Taller and darker is busier." xs={xs} rows={rows} marks={marks} />}
      {rest.map((panel) => <Panel key={panel.title} {...panel} xs={xs} marks={marks} />)}
    </div>
  );
}
