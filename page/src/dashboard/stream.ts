// The stream of states and events. It uses server-sent events over fetch, because EventSource cannot send our header.
// It stops while the page is hidden, and reconnects by itself.

import { isIncident } from './incidents';
import { ask, linesOf, Refused } from './session';
import { store } from './store';
import type { Happening, State } from './types';

const PAUSE_MIN_MS = 500;
const PAUSE_MAX_MS = 10_000;
/** The daemon sends something every second; after this time without data the connection counts as lost. */
const SILENCE_MAX_MS = 15_000;

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
const isState = (value: unknown): value is { state: State; events: Happening[] } =>
  isObject(value) && isObject(value.state) && isObject(value.state.apps) && Array.isArray(value.events);
const isHappening = (value: unknown): value is Happening => isObject(value) && typeof value.event === 'string' && typeof value.app === 'string';

function take(name: string, data: string): void {
  const value: unknown = JSON.parse(data);
  if (name === 'state' && isState(value)) store.takeState(value);
  else if (name === 'change') store.takeChange(value);
  else if (name === 'event' && isHappening(value)) store.takeEvent(value);
  else if (name === 'incident' && isIncident(value)) store.takeIncidents([value]);
}

async function read(signal: AbortSignal, heard: () => void): Promise<void> {
  const response = await ask('stream', { signal });
  store.connect('live');
  let name = '';
  for await (const line of linesOf(response)) {
    heard();
    if (line.startsWith('event: ')) name = line.slice(7);
    else if (line.startsWith('data: ')) take(name, line.slice(6));
  }
}

let controller: AbortController | undefined;
let turn = 0;

async function run(own: number): Promise<void> {
  let pause = PAUSE_MIN_MS;
  while (own === turn) {
    const mine = new AbortController();
    controller = mine;
    let silence = setTimeout(() => mine.abort(), SILENCE_MAX_MS);
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => mine.abort(), SILENCE_MAX_MS);
      pause = PAUSE_MIN_MS;
    };
    try {
      await read(mine.signal, heard);
    } catch (error) {
      if (error instanceof Refused && error.status === 401) { store.connect('over'); return; }
    } finally {
      clearTimeout(silence);
    }
    if (own !== turn) return;
    store.connect('lost');
    await new Promise((resolve) => { setTimeout(resolve, pause); });
    pause = Math.min(PAUSE_MAX_MS, pause * 2);
  }
}

/** Follows the daemon while the page is visible. */
export function follow(): void {
  const change = () => {
    turn += 1;
    controller?.abort();
    if (document.hidden) store.connect('paused');
    else void run(turn);
  };
  document.addEventListener('visibilitychange', change);
  change();
}
