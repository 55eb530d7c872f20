// The page: first the verdict, then the evidence, then whether the result can be trusted, then how to repeat it.

import type { Document, Plot, TrustCheck } from '../document';
import { Bars, Breakdown } from '../plots/Bars';
import { Blocks } from '../plots/Blocks';
import { Intervals } from '../plots/Intervals';
import { Lines, Percentiles, Timeline } from '../plots/Lines';
import { Scatter } from '../plots/Scatter';
import { Workers } from '../plots/Workers';
import { DataTable } from './DataTable';
import { Words } from './Words';

/** The maximum number of main figures; the tables have all of them. */
const TILES_MAX = 8;

/** `inside`: the page is part of another page, which has its own header and footer. */
export function Page({ page, inside = false }: { page: Document; inside?: boolean }) {
  const [Main, Head] = inside ? ['div', 'div'] as const : ['main', 'header'] as const;
  return (
    <>
      <Head>
        <p class="kind">Forkful <span aria-hidden="true">·</span> {page.kind || 'report'}</p>
        <h1>{page.title}</h1>
        {page.trustworthy === false && (
          <p class="warning" role="note"><strong>This result cannot be trusted.</strong> <Words text={page.trustText} /></p>
        )}
        {page.headline && <p class={`headline ${tone(page.word)}`}><Words text={page.headline} /></p>}
        {page.tiles.length > 0 && (
          <dl class="tiles">
            {page.tiles.slice(0, TILES_MAX).map((tile, index) => <div key={index}><dt>{tile.label}</dt><dd>{tile.value}</dd></div>)}
          </dl>
        )}
        {page.details.map((sentence, index) => <p class="detail" key={index}><Words text={sentence} /></p>)}
      </Head>
      <Main>
        {page.tables.map((table, index) => (
          <section key={index}>
            {table.title && <h2>{table.title}</h2>}
            {table.note && <p class="note"><Words text={table.note} /></p>}
            <DataTable columns={table.columns} rows={table.rows} caption={table.title || 'Table'} emphasis={table.emphasis} />
          </section>
        ))}
        <div class="plots">{page.plots.map((plot, index) => <PlotView key={index} plot={plot} />)}</div>
        {(page.checks.length > 0 || page.trustText) && <Trust page={page} />}
        {(page.environment.length > 0 || page.command) && <Repeat page={page} />}
      </Main>
      {!inside && (
        <footer>
          Written by Forkful{page.version && ` ${page.version}`}{page.createdAt && `, ${page.createdAt}`}. This page holds
          all it needs and asks no network for anything.
        </footer>
      )}
    </>
  );
}

const tone = (word: string): string => (['faster', 'slower'].includes(word) ? word : 'neutral');

function PlotView({ plot }: { plot: Plot }) {
  switch (plot.type) {
    case 'blocks': return <Blocks plot={plot} />;
    case 'intervals': return <Intervals plot={plot} />;
    case 'percentiles': return <Percentiles plot={plot} />;
    case 'lines': return <Lines plot={plot} />;
    case 'timeline': return <Timeline plot={plot} />;
    case 'workers': return <Workers plot={plot} />;
    case 'breakdown': return <Breakdown plot={plot} />;
    case 'bars': return <Bars plot={plot} />;
    case 'scatter': return <Scatter plot={plot} />;
  }
}

const SIGNS = { good: ['✓', 'passed'], bad: ['✗', 'failed'], open: ['–', 'not judged'] } as const;
const signOf = (check: TrustCheck): keyof typeof SIGNS => (check.ok === null ? 'open' : check.ok ? 'good' : 'bad');

function Trust({ page }: { page: Document }) {
  return (
    <section class="trust">
      <h2>Can this be trusted?</h2>
      {page.trustText && page.trustworthy !== false && <p class="note"><Words text={page.trustText} /></p>}
      <ul>
        {page.checks.map((check, index) => {
          const sign = signOf(check);
          return (
            <li key={index} class={sign}>
              <span class="sign" role="img" aria-label={SIGNS[sign][1]}>{SIGNS[sign][0]}</span>
              <div>
                <strong>{check.name}</strong>
                {check.value && <span class="measured">{check.value}{check.limit && ` (${check.limit})`}</span>}
                {check.meaning && <p><Words text={check.meaning} /></p>}
              </div>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Repeat({ page }: { page: Document }) {
  return (
    <section class="repeat">
      <h2>How to repeat it</h2>
      {page.command && <pre tabIndex={0}><code>{page.command}</code></pre>}
      {page.environment.length > 0 && (
        <dl>
          {page.environment.map(([key, value]) => <div key={key}><dt>{key}</dt><dd>{value}</dd></div>)}
        </dl>
      )}
    </section>
  );
}
