// Events since a page was opened, and incidents: the daemon keeps those, so older ones are listed too.

import { isFault, isTold, wordsOf as wordsOfIncident } from '../incidents';
import { Text } from '../parts/Text';
import { to } from '../route';
import { useStore, wordsOf } from '../store';
import type { Happening, Incident } from '../types';
import { dated } from '../when';

const SHOWN_MAX = 200;

export const isBad = (event: Happening): boolean => event.event === 'restart overlimit' || (event.event === 'exit' && !event.manually);

type Entry = { at_ms: number; key: string; event: Happening } | { at_ms: number; key: string; incident: Incident };

export function EventList({ events, incidents }: { events: Happening[]; incidents: Incident[] }) {
  const entries: Entry[] = [
    ...incidents.map((incident) => ({ at_ms: incident.at_ms, key: `incident ${incident.id}`, incident })),
    ...events.filter((event) => !isTold(event, incidents))
      .map((event) => ({ at_ms: event.at_ms, key: `${event.at_ms} ${event.pm_id} ${event.event} ${event.pid ?? ''}`, event })),
  ].sort((a, b) => a.at_ms - b.at_ms);
  if (entries.length === 0) return <p class="note">There were no events since the page was opened.</p>;
  return (
    <ol class="events">
      {entries.slice(-SHOWN_MAX).reverse().map((entry) => ('incident' in entry ? <OfIncident key={entry.key} incident={entry.incident} /> : <OfEvent key={entry.key} event={entry.event} />))}
    </ol>
  );
}

function Head({ at_ms, bad }: { at_ms: number; bad: boolean }) {
  return (
    <>
      <time dateTime={new Date(at_ms).toISOString()}>{dated(at_ms)}</time>{' '}
      <span class="shape" aria-hidden="true">{bad ? '✕' : '·'}</span>{' '}
    </>
  );
}

function OfEvent({ event }: { event: Happening }) {
  return (
    <li class={isBad(event) ? 'bad' : ''}>
      <Head at_ms={event.at_ms} bad={isBad(event)} />
      <a href={to('app', event.app, event.pm_id)}>{event.app}, worker {event.slot ?? event.pm_id}</a> {wordsOf(event)}
      {typeof event.pid === 'number' && <span class="muted"> (process {event.pid})</span>}
    </li>
  );
}

function OfIncident({ incident }: { incident: Incident }) {
  const { id, at_ms, app, pm_id, reason, next } = incident;
  const { state } = useStore();
  const slot = typeof pm_id === 'number' ? state?.apps[app]?.workers[pm_id]?.slot ?? pm_id : undefined;
  return (
    <li class={isFault(incident) ? 'bad' : ''}>
      <Head at_ms={at_ms} bad={isFault(incident)} />
      {typeof pm_id === 'number' ? <a href={to('app', app, pm_id)}>{app}, worker {slot}</a> : <a href={to('app', app)}>{app}</a>} {wordsOfIncident(incident)}: <Text line={reason} />
      {next && <span class="muted">; {next}</span>} <a href={to('incident', id)} aria-label={`Details of incident ${id}`}>details</a>
    </li>
  );
}

export function Events() {
  const { events, incidents } = useStore();
  return (
    <>
      <h1 tabIndex={-1}>Events</h1>
      <section><EventList events={events} incidents={incidents} /></section>
    </>
  );
}
