// Events since a page was opened.

import { to } from '../route';
import { useStore, wordsOf } from '../store';
import type { Happening } from '../types';
import { clock } from '../when';

const SHOWN_MAX = 200;

export const isBad = (event: Happening): boolean => event.event === 'restart overlimit' || (event.event === 'exit' && !event.manually);

export function EventList({ events }: { events: Happening[] }) {
  if (events.length === 0) return <p class="note">There were no events since the page was opened.</p>;
  return (
    <ol class="events">
      {events.slice(-SHOWN_MAX).reverse().map((event) => (
        <li key={`${event.at_ms} ${event.pm_id} ${event.event} ${event.pid ?? ''}`} class={isBad(event) ? 'bad' : ''}>
          <time dateTime={new Date(event.at_ms).toISOString()}>{clock(event.at_ms)}</time>{' '}
          <span class="shape" aria-hidden="true">{isBad(event) ? '✕' : '·'}</span>{' '}
          <a href={to('app', event.app, event.pm_id)}>{event.app}, worker {event.slot ?? event.pm_id}</a> {wordsOf(event)}
          {event.pid !== undefined && <span class="muted"> (process {event.pid})</span>}
        </li>
      ))}
    </ol>
  );
}

export function Events() {
  const { events } = useStore();
  return (
    <>
      <h1 tabIndex={-1}>Events</h1>
      <section><EventList events={events} /></section>
    </>
  );
}
