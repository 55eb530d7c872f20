// One worker with all its details.

import { number, quantity } from '../../format';
import { Status } from '../parts/Status';
import { to } from '../route';
import { useStore } from '../store';
import { dated, span } from '../when';
import { statusOf } from './AppPage';
import { EventList } from './Events';
import { Plots } from './Plots';

/** A metric's value, by the unit at the end of its name. */
export function shown(name: string, value: number): string {
  if (name.endsWith('_bytes')) return quantity(value, 'bytes');
  if (name.endsWith('_ms_per_s')) return `${number(value)} ms/s`;
  if (name.endsWith('_ms')) return quantity(value, 'ms');
  if (name.endsWith('_per_s')) return `${number(value)} /s`;
  if (/utilization|cpu_throttled|main_thread_cpu|run_queue_wait|pool_busy|pressure/.test(name)) return `${number(value * 100)} %`;
  return number(value);
}

export const labelOf = (name: string): string =>
  name.replace(/_(ms_per_s|bytes|ms|per_s)$/, '').replaceAll('_', ' ').replace(/^http /, 'HTTP ').replace(/^gc /, 'GC ');

export function WorkerPage({ name, id }: { name: string; id: string }) {
  const { state, events, incidents } = useStore();
  const worker = state?.apps[name]?.workers[id];
  if (!state) return <p class="note">Waiting for the state of the apps.</p>;
  if (!worker) return <><h1 tabIndex={-1}>worker {id}</h1><p class="warning">There is no worker with this id. <a href={to('app', name)}>{name}</a> may have others.</p></>;
  const { status, text } = statusOf(worker);
  const facts: [string, string | undefined][] = [
    ['Process', worker.pid?.toString()],
    ['Id', String(worker.pm_id)],
    ['Started', worker.started_at_ms === undefined ? undefined : `${dated(worker.started_at_ms)}, ${span(state.at_ms - worker.started_at_ms)} ago`],
    ['Node.js', worker.node_version],
    ['CPU', `${number(worker.cpu_percent)} %`],
    ['Memory', quantity(worker.memory_bytes, 'bytes')],
    ['Restarts', number(worker.restarts)],
    ['Crashes', number(worker.crashes)],
    ['Last exit', worker.last_exit],
    ['Last replaced', worker.renewed],
    ['Health', worker.health_fault],
    ['Log', worker.log_fault],
    ['Log lines lost', worker.dropped_log_lines ? number(worker.dropped_log_lines) : undefined],
  ];
  const metrics = Object.entries(worker.metrics ?? {});
  return (
    <>
      <p class="kind"><a href="#/">Apps</a> / <a href={to('app', name)}>{name}</a> / worker</p>
      <h1 tabIndex={-1}>{name}, worker {worker.slot} <Status status={status} text={text} /></h1>
      {worker.reason && <p class="warning">{worker.reason}</p>}
      <section>
        <h2>The process</h2>
        <dl>{facts.filter(([, value]) => value !== undefined).map(([label, value]) => <div key={label}><dt>{label}</dt><dd>{value}</dd></div>)}</dl>
        <p class="note"><a href={`#/logs?app=${encodeURIComponent(name)}&worker=${worker.pm_id}`}>Logs of this worker</a></p>
      </section>
      <section>
        <h2>Measured in the last second</h2>
        {metrics.length === 0
          ? <p class="note">The worker's agent has not reported yet.</p>
          : <dl>{metrics.map(([key, value]) => <div key={key}><dt>{labelOf(key)}</dt><dd>{shown(key, value)}</dd></div>)}</dl>}
      </section>
      <h2 class="apart">Over time</h2>
      <Plots app={name} worker={worker.pm_id} events={events} incidents={incidents} limit={state.apps[name]?.memory_limit_bytes} />
      <section><h2>Events</h2><EventList events={events.filter((event) => event.pm_id === worker.pm_id)} incidents={incidents.filter((incident) => incident.app === name && incident.pm_id === worker.pm_id)} /></section>
    </>
  );
}
