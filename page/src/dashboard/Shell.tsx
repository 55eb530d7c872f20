// The frame of every view: navigation, the state of the connection, and announcements for screen readers.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { Route } from './route';
import { useRoute } from './route';
import { session } from './session';
import type { Connection } from './store';
import { useStore } from './store';
import { AppPage } from './views/AppPage';
import { Events } from './views/Events';
import { IncidentPage } from './views/IncidentPage';
import { Logs } from './views/Logs';
import { Overview } from './views/Overview';
import { Reports } from './views/Reports';
import { Stalls } from './views/Stalls';
import { WorkerPage } from './views/WorkerPage';

const PLACES = [['', 'Apps'], ['logs', 'Logs'], ['events', 'Events'], ['stalls', 'Stalls'], ['reports', 'Reports']] as const;

const CONNECTIONS: Record<Connection, { sign: string; text: string }> = {
  connecting: { sign: '○', text: 'connecting' },
  live: { sign: '●', text: 'live' },
  paused: { sign: '❚❚', text: 'paused' },
  lost: { sign: '✕', text: 'no connection' },
  over: { sign: '✕', text: 'session over' },
};

export function Shell() {
  const route = useRoute();
  const { connection, spoken } = useStore();
  const main = useRef<HTMLElement>(null);
  const place = route.path.join('/');
  const isFirst = useRef(true);
  // After every drawing: a heading may come after its view, and changes with the state of an app.
  useEffect(() => {
    const title = `${main.current?.querySelector('h1')?.textContent ?? 'Dashboard'} · Forkful`;
    if (document.title !== title) document.title = title;
  });
  useEffect(() => {
    const heading = main.current?.querySelector('h1');
    // Keyboard and screen-reader users begin at the new view.
    if (!isFirst.current) heading?.focus();
    isFirst.current = false;
  }, [place]);
  const { sign, text } = CONNECTIONS[connection];
  const [first = ''] = route.path;
  const here = { app: '', incident: 'events' }[first] ?? first;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.querySelector('h1')?.focus(); }}>Skip to the content</a>
      <header>
        <span class="name">Forkful</span>
        <nav aria-label="Views">
          {PLACES.map(([path, name]) => <a key={path} href={`#/${path}`} aria-current={here === path ? 'page' : undefined}>{name}</a>)}
        </nav>
        <span class={`connection ${connection}`}><span aria-hidden="true">{sign}</span> {text}</span>
      </header>
      {(connection === 'lost' || connection === 'over') && (
        <p class="warning" role="status">
          {connection === 'lost'
            ? 'The daemon does not answer, or has closed the port of this page because no page was in sight for 30 minutes; this page shows old values.'
            : 'This session has ended.'} <code>forkful dashboard</code> prints a new link.
        </p>
      )}
      <main id="main" ref={main}><View route={route} /></main>
      <footer>Forkful {session().version} · {session().control ? 'actions are allowed' : 'read-only; `forkful dashboard --control` allows actions'}</footer>
      <div class="hidden" aria-live="polite">{spoken}</div>
    </>
  );
}

function View({ route }: { route: Route }): ComponentChildren {
  const [first, name = '', id] = route.path;
  if (first === undefined) return <Overview />;
  if (first === 'app' && id !== undefined) return <WorkerPage key={`${name}/${id}`} name={name} id={id} />;
  if (first === 'app') return <AppPage key={name} name={name} />;
  if (first === 'logs') return <Logs key={route.query.toString()} query={route.query} />;
  if (first === 'incident') return <IncidentPage key={name} id={name} />;
  if (first === 'events') return <Events />;
  if (first === 'stalls') return <Stalls key={route.query.toString()} query={route.query} />;
  if (first === 'reports') return <Reports />;
  return <><h1 tabIndex={-1}>Page not found</h1><p><a href="#/">Apps</a></p></>;
}
