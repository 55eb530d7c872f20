// The actions of a page with control. Each needs the reader's confirmation.

import { useEffect, useRef, useState } from 'preact/hooks';
import { post, session } from '../session';

type Verb = 'restart' | 'reload' | 'stop' | 'scale';
const SAYS: Record<Verb, string> = {
  reload: 'New workers take over one after the other; no request is lost.',
  restart: 'All workers end and start again. Requests in progress may fail.',
  stop: 'All workers end. The app stays in the list.',
  scale: 'The app gets this number of workers.',
};

type Outcome = { apps: { name: string; ok: boolean; error?: string | null; hint?: string | null }[] };

export function Actions({ app, instances }: { app: string; instances: number }) {
  const [asked, setAsked] = useState<Verb | null>(null);
  const [told, setTold] = useState('');
  const [busy, setBusy] = useState(false);
  if (!session().control) return null;
  const act = async (verb: Verb, count: number) => {
    setBusy(true);
    setTold(`${verb} of ${app} is in progress`);
    try {
      const response = await post(`actions/${verb}`, verb === 'scale' ? { app, instances: count } : { app });
      const { apps } = await response.json() as Outcome;
      const failed = apps.filter((outcome) => !outcome.ok);
      setTold(failed.length === 0 ? `${verb} of ${app} is done` : failed.map(({ error, hint }) => [error, hint].filter(Boolean).join('. ')).join('; '));
    } catch (error) {
      setTold(error instanceof Error ? error.message : String(error));
    }
    setBusy(false);
  };
  return (
    <div class="actions">
      {(['reload', 'restart', 'scale', 'stop'] as const).map((verb) => (
        // Not `disabled`, which would take the focus away.
        <button key={verb} type="button" aria-disabled={busy} onClick={() => { if (!busy) setAsked(verb); }}>{verb}</button>
      ))}
      <span class="told" role="status">{told}</span>
      {asked && <Question verb={asked} app={app} instances={instances} onYes={act} onClose={() => setAsked(null)} />}
    </div>
  );
}

/** The daemon takes no more. */
const WORKERS_MAX = 1024;

type QuestionProps = { verb: Verb; app: string; instances: number; onYes: (verb: Verb, count: number) => void; onClose: () => void };

function Question({ verb, app, instances, onYes, onClose }: QuestionProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [count, setCount] = useState(instances);
  useEffect(() => { dialog.current?.showModal(); }, []);
  // The dialog gives the focus back to the button that opened it when it closes, not when it is removed.
  const close = () => dialog.current?.close();
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="question">
      <h2 id="question">{verb} {app}?</h2>
      <p>{SAYS[verb]}</p>
      {verb === 'scale' && (
        <p><label>Workers <input type="number" min={1} max={WORKERS_MAX} value={count} onInput={(event) => setCount(Number(event.currentTarget.value))} /></label></p>
      )}
      <div class="buttons">
        <button type="button" class="yes" disabled={!(Number.isInteger(count) && count >= 1 && count <= WORKERS_MAX)} onClick={() => { close(); onYes(verb, count); }}>{verb}</button>
        <button type="button" onClick={close}>cancel</button>
      </div>
    </dialog>
  );
}
