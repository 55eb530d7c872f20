// The page in a real browser: plots are drawn, nothing is asked of the network, nothing is said in the console,
// it can be read on a phone, in the dark, on paper and without eyes.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { drawnPlots, launch, openPage, render, skip } from './browser.mjs';
import { benchDocument, compareDocument, experimentDocument, hostileDocument, tuneDocument } from './documents.mjs';

const PHONE = { width: 360, height: 740 };
const PAGE_BYTES_MAX = 300_000;
const documents = {
  bench: benchDocument(), compare: compareDocument(), tune: tuneDocument(), experiment: experimentDocument(), hostile: hostileDocument(),
};
/** Plots that each kind must show. */
const PLOTS_MIN = { bench: 5, compare: 7, tune: 2, experiment: 4, hostile: 6 };

describe('the page in a browser', { skip }, () => {
  let browser;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'forkful-page-'));
  const files = {};

  before(async () => {
    browser = await launch();
    for (const [kind, document] of Object.entries(documents)) {
      files[kind] = path.join(folder, `${kind}.html`);
      const html = render(document);
      assert.ok(html.length < PAGE_BYTES_MAX, `${kind}: ${html.length} bytes`);
      writeFileSync(files[kind], html);
    }
  });
  after(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const open = (kind, options) => openPage(browser, files[kind], options);

  for (const kind of Object.keys(documents)) {
    test(`${kind}: drawn, quiet, and without the network`, async () => {
      const { page, context, said, asked } = await open(kind);
      const plots = await page.evaluate(drawnPlots);
      assert.ok(plots.length >= PLOTS_MIN[kind], `${plots.length} plots`);
      assert.deepEqual(plots.filter((plot) => !plot.drawn), [], 'every plot has something in it');
      assert.deepEqual(said, [], 'nothing in the console');
      assert.deepEqual(asked, [], 'no request');
      await context.close();
    });

    for (const [where, viewport] of [['a phone', PHONE], ['a narrow phone', { width: 320, height: 600 }], ['a desk', { width: 1100, height: 900 }]]) {
      test(`${kind}: fits the width of ${where}`, async () => {
        const { page, context } = await open(kind, { viewport });
        const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        assert.ok(content <= window, `the page is ${content} wide, the window ${window}`);
        await context.close();
      });
    }

    test(`${kind}: text stands out from its ground, in the light and in the dark`, async () => {
      for (const colorScheme of ['light', 'dark']) {
        const { page, context } = await open(kind, { colorScheme });
        const faint = await page.evaluate(faintTexts);
        assert.deepEqual(faint, [], `${colorScheme}: contrast below 4.5`);
        const [red] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
        assert.equal(red < 128, colorScheme === 'dark');
        await context.close();
      }
    });
  }

  test('what stands in a document stays text', async () => {
    const { page, context } = await open('hostile');
    assert.equal(await page.evaluate(() => document.querySelectorAll('#page img, #page script').length), 0);
    assert.match(await page.title(), /^<\/script><script>document\.title/);
    assert.equal(await page.textContent('h1'), hostileDocument().title);
    await context.close();
  });

  test('every plot has words and a table for those who do not see it', async () => {
    for (const kind of ['bench', 'compare', 'tune', 'experiment']) {
      const { page, context } = await open(kind);
      const figures = await page.$$eval('figure.plot', (all) => all.map((figure) => ({
        name: figure.querySelector('h3').textContent,
        words: figure.querySelector('[role=img]').getAttribute('aria-label').length,
        rows: figure.querySelectorAll('details table tbody tr').length,
      })));
      for (const figure of figures) {
        assert.ok(figure.words > figure.name.length + 10, `${kind}, ${figure.name}: described`);
        assert.ok(figure.rows > 0, `${kind}, ${figure.name}: has its numbers`);
      }
      assert.equal(await page.evaluate(() => document.querySelectorAll('h1').length), 1);
      assert.equal(await page.evaluate(() => document.documentElement.lang), 'en');
      await context.close();
    }
  });

  test('the verdict comes first, a result that cannot be trusted says so before it', async () => {
    const { page, context } = await open('tune');
    const order = await page.$$eval('header > *', (parts) => parts.map((part) => part.className.split(' ')[0] || part.tagName));
    assert.deepEqual(order.slice(0, 4), ['kind', 'H1', 'warning', 'headline']);
    await context.close();
  });

  /** The text of a page of this document, its tables and the words of its plots. */
  const told = async (document) => {
    const file = path.join(folder, 'told.html');
    writeFileSync(file, render(document));
    const { page, context } = await openPage(browser, file);
    const text = await page.textContent('main');
    const words = await page.$$eval('figure.plot [role=img]', (all) => all.map((one) => one.getAttribute('aria-label')));
    await context.close();
    return { text, words };
  };

  test('the plot of blocks says whether disturbed ones count, and its means are of those that do', async () => {
    const counts = (all) => {
      const document = compareDocument();
      document.blocks.forEach((block, index) => {
        block.counted = all || block.disturbed === null;
        block.arms.cluster.per_second = index === 3 ? 4000 : 10000;
      });
      return document;
    };
    const left = await told(counts(false));
    assert.ok(left.text.includes('Hollow: disturbed and not counted (the host stole 3.1 % of the CPU)'));
    assert.ok(left.words.some((words) => /cluster: 6 blocks from 4,000 to 10,000 requests\/s, mean 10,000/.test(words)), left.words.join('\n'));
    const want = await told(counts(true));
    assert.ok(want.text.includes('Hollow: disturbed but counted for want of better (the host stole 3.1 % of the CPU)'));
    assert.ok(want.words.some((words) => /cluster: .* mean 9,000/.test(words)), want.words.join('\n'));
  });

  test('an overloaded arm has no latencies, neither in the table nor drawn', async () => {
    const document = compareDocument();
    const drawn = (words) => words.filter((one) => one.startsWith('Latency at 4,000 requests/s')).join();
    assert.match(drawn((await told(document)).words), /single/);
    for (const entry of document.arms[0].latency) entry.overloaded = true;
    const { text, words } = await told(document);
    assert.match(text, /one plain process1[^a-z]*overloadoverload/);
    assert.match(drawn(words), /cluster/);
    assert.doesNotMatch(drawn(words), /single/);
  });

  test('the law is drawn over the pool that it is fitted to, and the choice is marked in its own', async () => {
    const document = tuneDocument();
    const other = document.table.filter((row) => row.workers < 3).map((row) => ({ ...row, pool: 16, per_second: 2 * row.per_second }));
    for (const row of document.table) row.chosen = false;
    document.table.push(...other);
    Object.assign(document.choice, { pool: 16, pool_matters: true });
    document.usl.pool = 4;
    const file = path.join(folder, 'pools.html');
    writeFileSync(file, render(document));
    const { page, context } = await openPage(browser, file);
    const figures = await page.$$eval('figure.plot', (all) => all.map((figure) => [figure.querySelector('h3').textContent, figure.textContent + figure.querySelector('[role=img]').getAttribute('aria-label')]));
    await context.close();
    const of = (pool) => figures.find(([title]) => title === `Throughput over workers, thread pool of ${pool}`)?.[1];
    assert.match(of(4), /Contention σ = 2 %/);
    assert.doesNotMatch(of(4), /Chosen: 2/);
    assert.match(of(16), /Chosen: 2/);
    assert.doesNotMatch(of(16), /Contention/);
  });

  test('an expectation is kept, missed, or cannot be judged', async () => {
    const document = benchDocument();
    const judged = (expectation, kept) => ({ expectation, found: '2.3 ms', kept });
    document.thresholds = [judged('p50<1s', true), judged('p90<1ms', false), judged('p999<9s', null)];
    const { text } = await told(document);
    assert.match(text, /p50<1s2\.3 mskept.*p90<1ms2\.3 msmissed.*p999<9s2\.3 mscannot be judged/s);
  });

  test('it prints in light colours, its plots within the paper', async () => {
    const { page, context } = await open('compare', { colorScheme: 'dark' });
    const pdf = await page.pdf({ format: 'A4', printBackground: true });
    assert.ok(pdf.length > 10_000);
    const gridLight = () => page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue('--grid').trim());
    const dark = await gridLight();
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    assert.notEqual(await gridLight(), dark, 'canvases are drawn in the colours of paper');
    assert.equal(await page.evaluate(() => Math.max(...[...document.querySelectorAll('.canvas canvas')].map((canvas) => canvas.clientWidth)) <= 680), true);
    await page.emulateMedia({ media: 'print' });
    const ink = await page.evaluate(() => getComputedStyle(document.body).color.match(/\d+/g).map(Number)[0]);
    assert.ok(ink < 80, 'dark text on paper');
    await context.close();
  });

  test('canvases follow a change of theme and of width', async () => {
    const { page, context } = await open('compare', { colorScheme: 'light' });
    const pixels = () => page.evaluate(() => document.querySelector('.canvas canvas').toDataURL().length);
    const light = await pixels();
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.waitForFunction((before) => document.querySelector('.canvas canvas').toDataURL().length !== before, light);
    await page.setViewportSize(PHONE);
    await page.waitForFunction(() => document.querySelector('.canvas canvas').clientWidth < 360);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth), true);
    await context.close();
  });
});

/** Runs in the page: texts whose contrast (WCAG 2) with what is behind them is below 4.5. */
function faintTexts() {
  const channel = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const numbers = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const behind = (element) => {
    for (let here = element; here; here = here.parentElement) {
      const color = numbers(getComputedStyle(here).backgroundColor);
      if (color.length === 3 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const element of document.querySelectorAll('#page *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '');
    if (!own || element.closest('.hidden, title, .dominated') || element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element);
    const ink = numbers(element instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push(`${element.tagName} "${element.textContent.slice(0, 30)}" ${ratio.toFixed(2)}`);
  }
  return faint;
}
