// The output of apps, as it is written: filtered, searched, followed. Lines are hostile; see ansi.ts.

import type { ComponentChildren } from 'preact';
import { memo } from 'preact/compat';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { pieces, plain } from '../ansi';
import { ask, linesOf } from '../session';
import { useStore } from '../store';
import type { LogLine } from '../types';
import { workersOf } from '../types';
import { dated } from '../when';

/** The number of lines that the page keeps; the oldest are dropped. */
const LINES_MAX = 3000;
/** The number of these lines that are drawn. */
const DRAWN_MAX = 1000;
const PAST_LINES = 200;
/** New lines are drawn together, because people cannot read a fast log line by line. */
const DRAW_EVERY_MS = 200;
const LINE_LENGTH_MAX = 4000;

export type Kept = LogLine & { id: number };
type Query = { app: string; worker: string; stream: string };

const isLine = (value: unknown): value is LogLine =>
  typeof value === 'object' && value !== null && typeof (value as LogLine).line === 'string' && typeof (value as LogLine).app === 'string';

/** Names in a list of targets: a comma and a backslash are written with a backslash before them. */
const target = (name: string): string => name.replace(/[\\,]/g, '\\$&');

/** Whether nobody sees the page. */
function useHidden(): boolean {
  const [isHidden, setHidden] = useState(document.hidden);
  useEffect(() => {
    const change = () => setHidden(document.hidden);
    document.addEventListener('visibilitychange', change);
    change();
    return () => document.removeEventListener('visibilitychange', change);
  }, []);
  return isHidden;
}

function useLines({ app, worker, stream }: Query, follows: boolean): { lines: Kept[]; fault: string } {
  const [shown, setShown] = useState<{ lines: Kept[]; fault: string }>({ lines: [], fault: '' });
  // A list that follows nothing is not read again: the page would scroll away from what its user looks at.
  const isHidden = useHidden() && follows;
  useEffect(() => {
    // The lines that are there stay; they are read again when the page is visible.
    if (isHidden) return undefined;
    const control = new AbortController();
    let [lines, next, timer]: [Kept[], number, ReturnType<typeof setTimeout> | undefined] = [[], 0, undefined];
    const draw = (fault = '') => { timer = undefined; setShown({ lines, fault }); };
    draw();
    const query = new URLSearchParams({ targets: worker || (app && target(app)), lines: String(PAST_LINES), follow: 'true' });
    if (stream) query.set('stream', stream);
    const read = async () => {
      for await (const text of linesOf(await ask(`logs?${query}`, { signal: control.signal }))) {
        const line: unknown = text === '' ? null : JSON.parse(text);
        if (!isLine(line)) continue;
        const cut = line.line.length > LINE_LENGTH_MAX ? `${line.line.slice(0, LINE_LENGTH_MAX)} … (${line.line.length} characters)` : line.line;
        lines = [...(lines.length >= LINES_MAX ? lines.slice(LINES_MAX / 10) : lines), { ...line, line: cut, id: next }];
        next += 1;
        timer ??= setTimeout(draw, DRAW_EVERY_MS);
      }
      draw('The log has ended, or it was written faster than this page could read it.');
    };
    read().catch((error: unknown) => { if (!control.signal.aborted) draw(error instanceof Error ? error.message : String(error)); });
    return () => { control.abort(); clearTimeout(timer); };
  }, [app, worker, stream, isHidden]);
  return shown;
}

/** The filter of lines: lines that contain a text, or that match a `/pattern/`. */
export function matcher(filter: string): { test: (text: string) => boolean; fault: string } {
  const pattern = /^\/(.+)\/(i?)$/.exec(filter);
  if (pattern) {
    try {
      const expression = new RegExp(pattern[1] ?? '', pattern[2]);
      return { test: (text) => expression.test(text), fault: '' };
    } catch {
      return { test: () => true, fault: 'This pattern is not complete.' };
    }
  }
  const wanted = filter.toLowerCase();
  return { test: (text) => text.toLowerCase().includes(wanted), fault: '' };
}

export function Logs({ query }: { query: URLSearchParams }) {
  const { state } = useStore();
  const [app, setApp] = useState(query.get('app') ?? '');
  const [worker, setWorker] = useState(query.get('worker') ?? '');
  const [stream, setStream] = useState('');
  const [filter, setFilter] = useState('');
  const [search, setSearch] = useState('');
  const [follows, setFollows] = useState(true);
  const { lines, fault } = useLines({ app, worker, stream }, follows);
  const { test, fault: wrong } = matcher(filter);
  const matching = filter === '' ? lines : lines.filter((line) => test(plain(line.line)));
  const drawn = matching.slice(-DRAWN_MAX);
  const found = search === '' ? 0 : drawn.filter((line) => plain(line.line).toLowerCase().includes(search.toLowerCase())).length;
  const workers = app && state?.apps[app] ? workersOf(state.apps[app]) : [];
  return (
    <>
      <h1 tabIndex={-1}>Logs</h1>
      <form class="tools" onSubmit={(event) => event.preventDefault()}>
        <label>App <select value={app} onChange={(event) => { setApp(event.currentTarget.value); setWorker(''); }}>
          <option value="">all</option>
          {Object.keys(state?.apps ?? {}).map((name) => <option key={name} value={name}>{name}</option>)}
        </select></label>
        <label>Worker <select value={worker} disabled={workers.length === 0} onChange={(event) => setWorker(event.currentTarget.value)}>
          <option value="">all</option>
          {workers.map((one) => <option key={one.pm_id} value={String(one.pm_id)}>{one.slot}</option>)}
        </select></label>
        <label>Stream <select value={stream} onChange={(event) => setStream(event.currentTarget.value)}>
          <option value="">both</option><option value="out">stdout</option><option value="err">stderr</option>
        </select></label>
        <label>Filter <input type="text" value={filter} placeholder="text or /pattern/i" onInput={(event) => setFilter(event.currentTarget.value)} /></label>
        <label>Search <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} /></label>
        <label class="check"><input type="checkbox" checked={follows} onChange={(event) => setFollows(event.currentTarget.checked)} /> follow</label>
      </form>
      <p class="note" role="status">{wrong || fault}</p>
      {/* Not a status: screen readers would announce every change. */}
      <p class="note count">{search === '' ? `${matching.length} lines` : `${found} of ${drawn.length} lines have “${search}”`}</p>
      <Lines lines={drawn} search={search} follows={follows} onLeave={() => setFollows(false)} />
    </>
  );
}

function Lines({ lines, search, follows, onLeave }: { lines: Kept[]; search: string; follows: boolean; onLeave: () => void }) {
  const box = useRef<HTMLDivElement>(null);
  const lastTop = useRef(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    if (follows) element.scrollTop = element.scrollHeight;
    lastTop.current = element.scrollTop;
  }, [lines, follows]);
  // By the scrollbar, by touch or by any other means. When lines are dropped or the window changes, the box scrolls by itself and stays at its end.
  const onScroll = (event: { currentTarget: HTMLDivElement }) => {
    const { scrollTop: top, scrollHeight, clientHeight } = event.currentTarget;
    if (follows && top < lastTop.current && scrollHeight - clientHeight - top > 1) onLeave();
    lastTop.current = top;
  };
  const onWheel = (event: WheelEvent) => { if (event.deltaY < 0 && follows) onLeave(); };
  const onKeyDown = (event: KeyboardEvent) => { if (follows && ['ArrowUp', 'PageUp', 'Home'].includes(event.key)) onLeave(); };
  return (
    <div class="log" ref={box} tabIndex={0} role="region" aria-label="Lines of the log" onScroll={onScroll} onWheel={onWheel} onKeyDown={onKeyDown}>
      {lines.map((line) => <Line key={line.id} line={line} search={search} />)}
    </div>
  );
}

const Line = memo(function Line({ line, search }: { line: Kept; search: string }) {
  return (
    <div class={`line ${line.stream === 'err' ? 'err' : ''}`}>
      <span class="where">{line.at_ms ? dated(line.at_ms) : '–'} {line.app}{line.pm_id === null || line.pm_id === undefined ? '' : ` ${line.pm_id}`}{line.stream === 'err' ? ' stderr' : ''}</span>{' '}
      <bdi class="text">{pieces(line.line).map(({ text, look }, index) => <span key={index} class={look}>{marked(text, search)}</span>)}</bdi>
    </div>
  );
});

/** The text, with the matches of the search marked. */
function marked(text: string, search: string): ComponentChildren {
  if (search === '') return text;
  const [lower, wanted] = [text.toLowerCase(), search.toLowerCase()];
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + wanted.length)}</mark>);
    from = at + wanted.length;
  }
  return [...parts, text.slice(from)];
}
