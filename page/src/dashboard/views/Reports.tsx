// Reports of `bench`, `compare`, `tune` and `experiment`, as on their own pages. They come from the reader's files and are sent
// nowhere: a report is data of unknown shape, and parts that are not understood are left out (../../read.ts).

import { useState } from 'preact/hooks';
import { adapt } from '../../adapt';
import type { Document } from '../../document';
import { asList, asObject, asText } from '../../document';
import { claim } from '../../palette';
import { Page } from '../../view/Page';

/** No report of Forkful is longer. */
const BYTES_MAX = 20_000_000;
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

export function Reports() {
  const [reports, setReports] = useState(opened);
  const [shown, show] = useState(opened.length - 1);
  const [fault, setFault] = useState('');
  const take = async (files: File[]) => {
    const faults: string[] = [];
    for (const file of files) {
      try {
        if (file.size > BYTES_MAX) throw new Error('it is too large');
        opened = [...opened.filter(({ name }) => name !== file.name), reportOf(file.name, await file.text())];
      } catch (error) {
        faults.push(`${file.name}: ${error instanceof SyntaxError ? 'it is no report' : (error as Error).message}`);
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
