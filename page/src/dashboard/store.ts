// The data of the page: the state of the apps, events, and recent samples of each worker for small plots. Views subscribe to it.

import { useEffect, useState } from 'preact/hooks';
import { listed } from './incidents';
import { patched } from './patch';
import type { Happening, Incident, State, Worker } from './types';
import { metric, workersOf } from './types';

/** Recent samples: ten minutes, one per second. */
export const PAST_MAX = 600;
const EVENTS_MAX = 1000;
const INCIDENTS_MAX = 400;

export type Connection = 'connecting' | 'live' | 'paused' | 'lost' | 'over';
export type Past = { at: number[]; loop: (number | null)[]; cpu: (number | null)[]; memory: (number | null)[]; rate: (number | null)[] };

class Store {
  connection: Connection = 'connecting';
  state: State | null = null;
  events: Happening[] = [];
  /** The oldest first. */
  incidents: Incident[] = [];
  past = new Map<number, Past>();
  /** The last change of a worker's state, for screen readers. */
  spoken = '';
  private followers = new Set<() => void>();

  follow(follower: () => void): () => void {
    this.followers.add(follower);
    return () => { this.followers.delete(follower); };
  }

  changed(): void { for (const follower of this.followers) follower(); }

  connect(connection: Connection): void {
    if (connection === this.connection) return;
    this.connection = connection;
    this.changed();
  }

  takeState({ state, events }: { state: State; events: Happening[] }): void {
    this.state = patched({}, state) as State;
    const seen = new Set(this.events.map(key));
    this.events = [...this.events, ...events.filter((event) => !seen.has(key(event)))].sort((a, b) => a.at_ms - b.at_ms).slice(-EVENTS_MAX);
    this.remember();
    // Without an answer, new incidents are still known by the stream.
    listed().then((known) => this.takeIncidents(known), () => undefined);
  }

  takeIncidents(found: Incident[]): void {
    const all = new Map([...this.incidents, ...found].map((incident) => [incident.id, incident]));
    this.incidents = [...all.values()].sort((a, b) => a.id - b.id).slice(-INCIDENTS_MAX);
    this.changed();
  }

  takeChange(change: unknown): void {
    if (!this.state) return;
    this.state = patched(this.state, change) as State;
    this.remember();
  }

  takeEvent(event: Happening): void {
    this.events = [...this.events, event].slice(-EVENTS_MAX);
    const worker = `${event.app}, worker ${event.slot ?? event.pm_id}`;
    if (event.event === 'exit' && !event.manually) this.spoken = `${worker} ended unexpectedly`;
    else if (event.event === 'online' || event.event === 'stop' || event.event === 'restart overlimit') this.spoken = `${worker}: ${wordsOf(event)}`;
    this.changed();
  }

  private remember(): void {
    const { state } = this;
    if (!state) return;
    const there = new Set<number>();
    for (const app of Object.values(state.apps)) {
      for (const worker of workersOf(app)) {
        there.add(worker.pm_id);
        this.sample(state.at_ms, worker);
      }
    }
    for (const id of this.past.keys()) if (!there.has(id)) this.past.delete(id);
    this.changed();
  }

  private sample(at: number, worker: Worker): void {
    const past = this.past.get(worker.pm_id) ?? { at: [], loop: [], cpu: [], memory: [], rate: [] };
    const runs = worker.pid !== undefined;
    past.at.push(at / 1000);
    past.loop.push(runs ? metric(worker, 'event_loop_utilization') ?? null : null);
    past.cpu.push(runs ? worker.cpu_percent / 100 : null);
    past.memory.push(runs ? worker.memory_bytes : null);
    past.rate.push(runs ? metric(worker, 'http_requests_per_s') ?? null : null);
    if (past.at.length > PAST_MAX) for (const values of Object.values(past)) values.shift();
    this.past.set(worker.pm_id, past);
  }
}

const key = (event: Happening): string => `${event.at_ms} ${event.pm_id} ${event.event} ${event.pid ?? ''}`;

export const store = new Store();

/** Draws again when something has changed. */
export function useStore(): Store {
  const [, redraw] = useState(0);
  useEffect(() => store.follow(() => redraw((turn) => turn + 1)), []);
  return store;
}

/** An event, in words. */
export function wordsOf(event: Happening): string {
  switch (event.event) {
    case 'online': return 'is online';
    case 'exit': {
      const code = event.exit_code === undefined || event.exit_code === null ? '' : ` with code ${event.exit_code}`;
      return event.manually ? `ended${code}` : `ended unexpectedly${code}`;
    }
    case 'start': return 'was started by a command';
    case 'stop': return 'was stopped by a command';
    case 'restart': return 'was restarted by a command';
    case 'reload': return 'was replaced by a reload';
    case 'delete': return 'was deleted';
    case 'restart overlimit': return 'ended too often and is not restarted any more';
    default: return event.event;
  }
}
