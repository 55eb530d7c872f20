// Reports of `bench`, `compare`, `tune` and `experiment`, as on their own pages. They come from the reader's files, or from the folder of
// `forkful dashboard --reports`, and are sent nowhere: a report is data of unknown shape, and parts that are not understood are left out
// (../../read.ts).

import { useEffect, useState } from 'preact/hooks';
import { adapt } from '../../adapt';
import type { Document } from '../../document';
import { asList, asObject, asText } from '../../document';
import { claim } from '../../palette';
import { Page } from '../../view/Page';
import { quantity } from '../../format';
import { ask, session } from '../session';
import { dated } from '../when';

/** No report of Forkful is longer. */
const BYTES_MAX = 16 * 2 ** 20;
const DATA = /<script type="application\/json" id="report-data">([\s\S]*?)<\/script>/;

export type Opened = { name: string; page: Document };

/** Reports of this tab; they stay while other views are shown. */
let opened: Opened[] = [];

/** The report in a file of `--json`, or of `--html`. */
export function reportOf(name: string, text: string): Opened {
  const json: unknown = JSON.parse(DATA.exec(text)?.[1] ?? text);
  claim(asList(asObject(json).arms).map((arm) => asText(asObject(arm).name)));
  const page = adapt(json);
  if (page.plots.length === 0 && page.tables.length === 0 && page.headline === '') throw new Error('it holds no report');
  return { name, page };
}

/** A report in the folder of `--reports`. */
type Saved = { name: string; bytes: number; modified_ms: number };

const isSaved = (value: unknown): value is Saved => {
  const { name, bytes, modified_ms } = asObject(value);
  return typeof name === 'string' && typeof bytes === 'number' && typeof modified_ms === 'number';
};

const wordsOf = (error: unknown): string => (error instanceof SyntaxError ? 'it is no report' : (error as Error).message);

export function Reports() {
  const [reports, setReports] = useState(opened);
  const [shown, show] = useState(opened.length - 1);
  const [fault, setFault] = useState('');
  const [saved, setSaved] = useState<Saved[] | null>(null);
  const [lacks, setLacks] = useState('');
  const list = () => {
    ask('reports').then((answer) => answer.json()).then(
      (answer: unknown) => {
        setFault('');
        const { reports: listed, note } = asObject(answer);
        setSaved(asList(listed).filter(isSaved));
        setLacks(typeof note === 'string' ? note : '');
      },
      (error: unknown) => setFault(wordsOf(error)),
    );
  };
  useEffect(() => { if (session().reports) list(); }, []);
  const open = async (name: string) => {
    try {
      const text = await (await ask(`report?name=${encodeURIComponent(name)}`)).text();
      opened = [...opened.filter((one) => one.name !== name), reportOf(name, text)];
      setFault('');
      setReports(opened);
      show(opened.length - 1);
    } catch (error) {
      setFault(`${name}: ${wordsOf(error)}`);
    }
  };
  const take = async (files: File[]) => {
    const faults: string[] = [];
    for (const file of files) {
      try {
        if (file.size > BYTES_MAX) throw new Error('it is too large');
        opened = [...opened.filter(({ name }) => name !== file.name), reportOf(file.name, await file.text())];
      } catch (error) {
        faults.push(`${file.name}: ${wordsOf(error)}`);
      }
    }
    setFault(faults.join('; '));
    setReports(opened);
    show(opened.length - 1);
  };
  const report = reports[shown];
  return (
    <>
      <h1 tabIndex={-1}>Reports</h1>
      <p class="detail">Results of <code>forkful bench</code>, <code>compare</code>, <code>tune</code> and <code>experiment</code>: files of <code>--json</code> or <code>--html</code>. They stay in this browser.</p>
      <div class="tools">
        <label>Open reports <input type="file" multiple accept=".json,.html" onChange={(event) => void take([...event.currentTarget.files ?? []])} /></label>
      </div>
      {saved && <SavedReports saved={saved} lacks={lacks} open={(name) => void open(name)} refresh={list} />}
      {fault && <p class="warning" role="alert">{fault}</p>}
      {reports.length > 0 && (
        <ul class="reports">
          {reports.map(({ name, page }, index) => (
            <li key={name}><button type="button" aria-pressed={index === shown} onClick={() => show(index)}>{name}</button> <span class="muted">{page.title}</span></li>
          ))}
        </ul>
      )}
      {report && <article key={report.name} class="report"><Page page={report.page} inside /></article>}
    </>
  );
}

/** The folder's reports, the newest first. */
function SavedReports({ saved, lacks, open, refresh }: { saved: Saved[]; lacks: string; open: (name: string) => void; refresh: () => void }) {
  return (
    <section aria-labelledby="saved">
      <h2 id="saved">In the folder of reports</h2>
      <div class="tools"><button type="button" onClick={refresh}>Look again</button></div>
      {saved.length === 0 && <p class="note">It holds no report: files that end with .json or .html, and that the owner of the folder or the user of the daemon has written.</p>}
      {lacks && <p class="note">{lacks}</p>}
      <ul class="reports saved">
        {saved.map(({ name, bytes, modified_ms }) => (
          <li key={name}><button type="button" onClick={() => open(name)}>{name}</button> <span class="muted">{dated(modified_ms)}, {quantity(bytes, 'bytes')}</span></li>
        ))}
      </ul>
    </section>
  );
}
