// The first screen: the state of each app, its restarts and its load.

import { useState } from 'preact/hooks';
import { number, quantity } from '../../format';
import { Spark } from '../parts/Spark';
import { Status } from '../parts/Status';
import { to } from '../route';
import { store, useStore } from '../store';
import type { App, Worker } from '../types';
import { known, metric, sum, workersOf } from '../types';
import { Plots } from './Plots';

/** The state of an app in one word. */
export function stateOf(workers: Worker[]): { status: string; text: string } {
  const online = workers.filter((worker) => worker.status === 'online');
  const blocked = workers.filter((worker) => worker.blocked_ms !== undefined).length;
  if (workers.length > 0 && online.length === workers.length) {
    return blocked > 0 ? { status: 'blocked', text: `${blocked} blocked` } : { status: 'online', text: 'online' };
  }
  const other = workers.find((worker) => worker.status !== 'online')?.status ?? 'stopped';
  if (online.length === 0) return { status: other, text: other };
  return { status: 'degraded', text: `degraded: ${other}` };
}

const byFirstWorker = ([, a]: [string, App], [, b]: [string, App]): number =>
  Math.min(...Object.keys(a.workers).map(Number)) - Math.min(...Object.keys(b.workers).map(Number));

export function Overview() {
  const { state, events, incidents } = useStore();
  const [chosen, choose] = useState('');
  if (!state) return <p class="note">Waiting for the state of the apps.</p>;
  const apps = Object.entries(state.apps).sort(byFirstWorker);
  const workers = apps.flatMap(([, app]) => workersOf(app));
  const online = workers.filter((worker) => worker.status === 'online').length;
  const plotted = chosen in state.apps ? chosen : apps[0]?.[0];
  return (
    <>
      <h1 tabIndex={-1}>Apps</h1>
      <p class={`headline ${online === workers.length ? 'faster' : 'slower'}`}>{headline(apps, online, workers.length)}</p>
      {(state.notes ?? []).map((note) => <p class="warning" key={note}>{note}</p>)}
      <section>
        <div class="scroll" tabIndex={0} role="region" aria-label="Apps">
          <table class="cards" role="table">
            <caption class="hidden">Apps</caption>
            <thead>
              <tr role="row">
                {['App', 'State'].map((name) => <th key={name} scope="col" role="columnheader">{name}</th>)}
                {['Workers', 'Restarts', 'CPU', 'Memory', 'Requests/s'].map((name) => <th key={name} scope="col" role="columnheader" class="number">{name}</th>)}
                <th scope="col" role="columnheader">Event loop, busiest worker</th>
              </tr>
            </thead>
            <tbody>{apps.map(([name, app]) => <Row key={name} name={name} app={app} />)}</tbody>
          </table>
        </div>
        {apps.length === 0 && <p class="note">No app runs. <code>forkful start app.js -i max</code> starts one.</p>}
      </section>
      {plotted !== undefined && (
        <>
          <div class="with-choice">
            <h2>{plotted} over time</h2>
            {apps.length > 1 && (
              <label>App <select value={plotted} onChange={(event) => choose(event.currentTarget.value)}>
                {apps.map(([name]) => <option key={name} value={name}>{name}</option>)}
              </select></label>
            )}
          </div>
          <Plots key={plotted} app={plotted} events={events} incidents={incidents} limit={state.apps[plotted]?.memory_limit_bytes} />
        </>
      )}
    </>
  );
}

function headline(apps: [string, App][], online: number, all: number): string {
  if (apps.length === 0) return 'There are no apps.';
  const count = `${apps.length} ${apps.length === 1 ? 'app' : 'apps'}, ${online} of ${all} ${all === 1 ? 'worker' : 'workers'} online`;
  const ill = apps.filter(([, app]) => !['online', 'stopped', 'finished'].includes(stateOf(workersOf(app)).status)).map(([name]) => name);
  return ill.length === 0 ? `${count}.` : `${count}; look at ${ill.join(', ')}.`;
}

function Row({ name, app }: { name: string; app: App }) {
  const workers = workersOf(app);
  const { status, text } = stateOf(workers);
  const online = workers.filter((worker) => worker.status === 'online').length;
  const rates = known(workers.map((worker) => metric(worker, 'http_requests_per_s')));
  const busiest = [...workers].sort((a, b) => (metric(b, 'event_loop_utilization') ?? -1) - (metric(a, 'event_loop_utilization') ?? -1))[0];
  const loop = busiest && metric(busiest, 'event_loop_utilization');
  return (
    <tr role="row">
      <th scope="row" role="rowheader"><a href={to('app', name)}>{name}</a></th>
      <td role="cell" data-label="State"><span><Status status={status} text={text} />{app.verdict && <span class="why">{app.verdict.title}{app.verdict.certainty === 'likely' && ' (likely)'}</span>}</span></td>
      <td role="cell" class="number" data-label="Workers"><span>{online} of {workers.length}{app.autoscale && <span class="why">{app.autoscale.min}–{app.autoscale.max} by load</span>}</span></td>
      <td role="cell" class="number" data-label="Restarts">{number(sum(workers.map((worker) => worker.restarts)))}</td>
      <td role="cell" class="number" data-label="CPU">{number(sum(workers.map((worker) => worker.cpu_percent)))} %</td>
      <td role="cell" class="number" data-label="Memory">{quantity(sum(workers.map((worker) => worker.memory_bytes)), 'bytes')}</td>
      <td role="cell" class="number" data-label="Requests/s">{rates.length > 0 ? number(sum(rates)) : '–'}</td>
      <td role="cell" data-label="Event loop">
        <span class="with-spark">
          {loop === undefined ? '–' : `${number(loop * 100)} %`}
          {busiest && <Spark values={store.past.get(busiest.pm_id)?.loop ?? []} top={1} />}
        </span>
      </td>
    </tr>
  );
}
