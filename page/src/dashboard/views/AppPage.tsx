// One app: its workers and their state.

import { number, quantity } from '../../format';
import { Actions } from '../parts/Actions';
import { Autoscaling } from '../parts/Autoscaling';
import { Spark } from '../parts/Spark';
import { Status } from '../parts/Status';
import { Text } from '../parts/Text';
import { to } from '../route';
import { store, useStore } from '../store';
import type { Verdict, Worker } from '../types';
import { metric, workersOf } from '../types';
import { span } from '../when';
import { EventList } from './Events';
import { stateOf } from './Overview';
import { Plots } from './Plots';

const COLUMNS = ['State', 'Up', 'Restarts', 'CPU', 'Memory', 'Requests/s', 'p99', 'Event loop'];

export function AppPage({ name }: { name: string }) {
  const { state, events, incidents } = useStore();
  const app = state?.apps[name];
  if (!state) return <p class="note">Waiting for the state of the apps.</p>;
  if (!app) return <><h1 tabIndex={-1}>{name}</h1><p class="warning">No app has this name.</p></>;
  const workers = workersOf(app);
  const { status, text } = stateOf(workers);
  return (
    <>
      <p class="kind"><a href="#/">Apps</a> / app</p>
      <h1 tabIndex={-1}>{name} <Status status={status} text={text} /></h1>
      <Actions app={name} instances={app.instances} />
      {app.verdict && <VerdictView verdict={app.verdict} />}
      {(app.notes ?? []).map((note) => <p class="warning" key={note}>{note}</p>)}
      <section>
        <h2>Workers</h2>
        <Autoscaling name={name} app={app} />
        <div class="scroll" tabIndex={0} role="region" aria-label="Workers">
          <table class="cards" role="table">
            <caption class="hidden">Workers of {name}</caption>
            <thead>
              <tr role="row"><th scope="col" role="columnheader">Worker</th>
                {COLUMNS.map((column) => <th key={column} scope="col" role="columnheader" class={['State', 'Event loop'].includes(column) ? '' : 'number'}>{column}</th>)}
              </tr>
            </thead>
            <tbody>{workers.map((worker) => <Row key={worker.pm_id} app={name} worker={worker} now={state.at_ms} />)}</tbody>
          </table>
        </div>
        <p class="note"><a href={`#/logs?app=${encodeURIComponent(name)}`}>Logs of {name}</a> · <a href={`#/stalls?app=${encodeURIComponent(name)}`}>Stalls of {name}</a></p>
      </section>
      <h2 class="apart">Over time</h2>
      <Plots app={name} events={events} incidents={incidents} limit={app.memory_limit_bytes} />
      <section>
        <h2>The app</h2>
        <dl>
          <div><dt>Script</dt><dd>{app.script}</dd></div>
          <div><dt>Mode</dt><dd>{app.mode}</dd></div>
          <div><dt>Listens on</dt><dd>{(app.listening ?? []).join(', ') || '–'}</dd></div>
          {app.memory_limit_bytes !== undefined && <div><dt>Memory limit</dt><dd>{quantity(app.memory_limit_bytes, 'bytes')}</dd></div>}
          {(app.dispatch ?? []).map((address) => (
            <div key={address.address}><dt>{address.address}</dt><dd>{address.mode}, {number(address.handed_over)} handed over, {number(address.rescued)} rescued, {number(address.lost)} lost</dd></div>
          ))}
        </dl>
      </section>
      <section><h2>Events</h2><EventList events={events.filter((event) => event.app === name)} incidents={incidents.filter((incident) => incident.app === name)} /></section>
    </>
  );
}

/** Verdicts that name no problem. */
const CALM = ['idle', 'unclear'];

export function VerdictView({ verdict: { verdict, text, places, advice, gain } }: { verdict: Verdict }) {
  const isCalm = CALM.includes(verdict);
  return (
    <section class="verdict" aria-label="What limits the app">
      <p class={`headline ${isCalm ? 'faster' : ''}`}>{text}</p>
      {places.length > 0 && (
        <p class="note">Event loops stood still in {places.map((place, index) => <span key={place}>{index > 0 && '; '}<Text line={place} /></span>)}.</p>
      )}
      {!isCalm && advice.length > 0 && <ul>{advice.map((line) => <li key={line}>{line}</li>)}</ul>}
      {!isCalm && gain && <p class="note">Expected gain: {gain}.</p>}
    </section>
  );
}

export function statusOf(worker: Worker): { status: string; text: string } {
  return worker.blocked_ms === undefined
    ? { status: worker.status, text: worker.status }
    : { status: 'blocked', text: `blocked for ${span(worker.blocked_ms)}` };
}

function Row({ app, worker, now }: { app: string; worker: Worker; now: number }) {
  const { status, text } = statusOf(worker);
  const loop = metric(worker, 'event_loop_utilization');
  const rate = metric(worker, 'http_requests_per_s');
  const p99 = metric(worker, 'http_latency_p99_ms');
  return (
    <tr role="row">
      <th scope="row" role="rowheader"><a href={to('app', app, worker.pm_id)}>worker {worker.slot}</a></th>
      <td role="cell" data-label="State"><span><Status status={status} text={text} />{worker.reason && <span class="why">{worker.reason}</span>}</span></td>
      <td role="cell" class="number" data-label="Up">{worker.pid !== undefined && worker.started_at_ms !== undefined ? span(now - worker.started_at_ms) : '–'}</td>
      <td role="cell" class="number" data-label="Restarts">{number(worker.restarts)}</td>
      <td role="cell" class="number" data-label="CPU">{number(worker.cpu_percent)} %</td>
      <td role="cell" class="number" data-label="Memory">{quantity(worker.memory_bytes, 'bytes')}</td>
      <td role="cell" class="number" data-label="Requests/s">{rate === undefined ? '–' : number(rate)}</td>
      <td role="cell" class="number" data-label="p99">{p99 === undefined ? '–' : quantity(p99, 'ms')}</td>
      <td role="cell" data-label="Event loop">
        <span class="with-spark">{loop === undefined ? '–' : `${number(loop * 100)} %`}<Spark values={store.past.get(worker.pm_id)?.loop ?? []} top={1} /></span>
      </td>
    </tr>
  );
}
