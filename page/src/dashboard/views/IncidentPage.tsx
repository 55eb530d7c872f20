// One incident: what happened, and what was known of the process at that time.

import { useEffect, useState } from 'preact/hooks';
import { number } from '../../format';
import { details, isFault, wordsOf } from '../incidents';
import { Text } from '../parts/Text';
import { to } from '../route';
import { useStore } from '../store';
import type { IncidentDetails } from '../types';
import { dated, span } from '../when';
import { labelOf, shown } from './WorkerPage';

export function IncidentPage({ id }: { id: string }) {
  const [incident, setIncident] = useState<IncidentDetails | null>(null);
  const [fault, setFault] = useState('');
  useEffect(() => {
    let isGone = false;
    details(id).then(
      (found) => { if (!isGone) setIncident(found); },
      (error: unknown) => { if (!isGone) setFault(error instanceof Error ? error.message : String(error)); },
    );
    return () => { isGone = true; };
  }, [id]);
  return (
    <>
      <p class="kind"><a href="#/events">Events</a> / incident</p>
      <h1 tabIndex={-1}>Incident {id}</h1>
      {fault && <p class="warning" role="status">{fault}</p>}
      {incident ? <Details incident={incident} /> : !fault && <p class="note">Loading the incident.</p>}
    </>
  );
}

function Details({ incident }: { incident: IncidentDetails }) {
  const { app, pm_id, at_ms, reason, next, end, hint, stderr_tail: tail } = incident;
  const { state } = useStore();
  const slot = typeof pm_id === 'number' ? state?.apps[app]?.workers[pm_id]?.slot ?? pm_id : undefined;
  const all: [string, string | undefined | null][] = [
    ['Time', dated(at_ms)],
    ['Reason', reason],
    ['Then', next],
    ['Hint', hint],
    ['Process', end?.pid?.toString()],
    ['Exit code', end?.exit_code?.toString()],
    ['Signal', end?.signal],
    ['Lived', end?.pid ? (end.uptime_ms < 1000 ? `${end.uptime_ms} ms` : span(end.uptime_ms)) : undefined],
    ['Restarts', end ? `${number(end.restarts_in_a_row)} in a row, ${number(end.restarts)} in all` : undefined],
    ['Node.js', end?.node_version],
  ];
  const facts = all.filter((pair): pair is [string, string] => typeof pair[1] === 'string' && pair[1] !== '');
  const metrics = Object.entries(incident.metrics);
  return (
    <>
      <p class={`headline ${isFault(incident) ? 'slower' : ''}`}>
        {slot === undefined || typeof pm_id !== 'number' ? <a href={to('app', app)}>{app}</a> : <a href={to('app', app, pm_id)}>{app}, worker {slot}</a>} {wordsOf(incident)}
      </p>
      <section>
        <h2>What is known</h2>
        <dl>{facts.map(([label, value]) => <div key={label}><dt>{label}</dt><dd><Text line={value} /></dd></div>)}</dl>
      </section>
      {tail.length > 0 && (
        <section>
          <h2 id="stderr">Last lines of stderr</h2>
          <div class="lines" tabIndex={0} role="region" aria-labelledby="stderr">{tail.map((line, index) => <div class="line" key={`${index} ${line}`}><Text line={line} /></div>)}</div>
        </section>
      )}
      {metrics.length > 0 && (
        <section>
          <h2>Measured last</h2>
          <dl>{metrics.map(([key, value]) => <div key={key}><dt>{labelOf(key)}</dt><dd>{shown(key, value)}</dd></div>)}</dl>
        </section>
      )}
    </>
  );
}
