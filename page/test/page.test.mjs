// The page in a real browser: plots are drawn, nothing is asked of the network, nothing is said in the console,
// it can be read on a phone, in the dark, on paper and without eyes.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { drawnPlots, launch, openPage, PATIENCE_MS, render, skip } from './browser.mjs';
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

    test(`${kind}: fits the width of a phone, a narrow phone and a desk`, async () => {
      const { page, context } = await open(kind, { viewport: PHONE });
      for (const viewport of [PHONE, { width: 320, height: 600 }, { width: 1100, height: 900 }]) {
        await page.setViewportSize(viewport);
        const fits = () => document.documentElement.scrollWidth <= document.documentElement.clientWidth;
        await page.waitForFunction(fits, null, { timeout: PATIENCE_MS });
      }
      await context.close();
    });

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
    assert.ok(want.text.includes('Hollow: disturbed but used because no clean ones were available (the host stole 3.1 % of the CPU)'));
    assert.ok(want.words.some((words) => /cluster: .* mean 8,584/.test(words)), want.words.join('\n'));
  });

  /** Opens the page of a document. */
  const opened = async (document, options) => {
    const file = path.join(folder, 'opened.html');
    writeFileSync(file, render(document));
    return openPage(browser, file, options);
  };

  test('the main figures stand under the headline in large type', async () => {
    for (const [kind, expected] of [
      ['bench', [['requests/s', '5,012'], ['p50', '0.9 ms'], ['p99', '2.25 ms'], ['errors', '20']]],
      ['compare', [['requests/s, single', '5,100'], ['p99, single', '6.43 ms'], ['requests/s, cluster', '9,900'], ['p99, cluster', '2.41 ms']]],
      ['tune', [['requests/s, 2 workers', '9,900'], ['p99, 2 workers', '5 ms']]],
    ]) {
      const { page, context } = await open(kind);
      const tiles = await page.$$eval('.tiles > div', (all) => all.map((tile) => [tile.querySelector('dt').textContent, tile.querySelector('dd').textContent]));
      assert.deepEqual(tiles, expected, kind);
      const sizes = await page.evaluate(() => ['.tiles dd', '.headline'].map((name) => parseFloat(getComputedStyle(document.querySelector(name)).fontSize)));
      assert.ok(sizes[0] > 1.3 * sizes[1], `${sizes}`);
      await context.close();
    }
  });

  test('no sentence stands on the page twice, and what stands between backticks is code', async () => {
    const document = tuneDocument();
    const note = 'a window has only 71 requests; a larger `--budget` makes longer windows';
    document.headline = document.choice.sentence;
    document.details = [document.headline.replace(/\.$/, ''), note, 'only here', 'Only here.'];
    document.trust.notes = [{ level: 'note', code: 'few_samples', text: note }];
    document.patch = null;
    const { page, context } = await opened(document);
    assert.deepEqual(await page.$$eval('.detail', (all) => all.map((one) => one.textContent)), ['only here']);
    const text = await page.innerText('#page');
    assert.equal(text.split('a window has only 71 requests').length, 2);
    assert.ok(!text.includes('`'), text);
    assert.deepEqual(await page.$$eval('.trust code', (all) => all.map((one) => one.textContent)), ['--budget']);
    await context.close();
  });

  test('the mean of a plot is the mean of the table', async () => {
    const document = compareDocument();
    const rates = [8000, 9000, 12_000];
    document.blocks = rates.map((rate, index) => ({ number: index + 1, disturbed: null, counted: true, arms: { cluster: { per_second: rate } } }));
    document.arms[1].throughput.per_second = rates.reduce((product, rate) => product * rate, 1) ** (1 / 3);
    const { text, words } = await told(document);
    const mean = Math.round(document.arms[1].throughput.per_second).toLocaleString('en');
    assert.ok(text.includes(mean), mean);
    assert.ok(words.some((one) => one.endsWith(`mean ${mean}`) || one.includes(`mean ${mean};`)), words.join('\n'));
  });

  test('an interval from two rounds does not press the points of a tuning together', async () => {
    const document = tuneDocument();
    document.table[0].ci95 = [100, 400_000];
    const { page, context } = await opened(document);
    const highest = await page.$$eval('figure.plot', (figures) => figures.slice(0, 2).map((figure) =>
      Math.max(...[...figure.querySelectorAll('.axis text')].map((text) => Number(text.textContent.replaceAll(',', ''))).filter(Number.isFinite))));
    assert.equal(highest.length, 2);
    for (const tick of highest) assert.ok(tick >= 9000 && tick <= 20_000, `an axis to ${tick} for values up to 9,900`);
    await context.close();
  });

  test('a table with long texts is a card for each row on a phone, without blank space', async () => {
    const document = experimentDocument();
    document.claims[0].why = 'in a closed loop the mean is connections divided by throughput: it says nothing that the rate does not say';
    const { page, context } = await opened(document, { viewport: { width: 390, height: 844 } });
    const found = await page.$eval('main table', (table) => ({
      rows: [...table.querySelectorAll('tbody tr')].map((row) => row.getBoundingClientRect().height),
      wide: table.scrollWidth <= table.parentElement.clientWidth,
      roles: [...table.querySelectorAll('tbody tr:first-child > *')].map((cell) => cell.getAttribute('role')),
      label: getComputedStyle(table.querySelector('tbody td'), '::before').content,
    }));
    assert.ok(found.wide, 'no scrolling to the side');
    assert.ok(Math.max(...found.rows) < 300, `rows of ${found.rows} pixels`);
    assert.deepEqual([found.roles, found.label], [['rowheader', 'cell', 'cell', 'cell'], '"reported"']);
    await context.close();
  });

  test('the colour of the headline is that of the best arm, also where the first comparison is lost', async () => {
    const tone = async (change) => {
      const document = compareDocument();
      change(document);
      const { page, context } = await opened(document);
      const classes = await page.getAttribute('.headline', 'class');
      await context.close();
      return classes;
    };
    assert.equal(await tone(() => {}), 'headline faster');
    const lost = (document) => { document.verdict = document.comparisons[0].verdict = 'slower'; };
    assert.equal(await tone(lost), 'headline slower');
    const best = (...verdicts) => (document) => {
      lost(document);
      document.headline = 'four is the best';
      document.best = { arm: 'four', leads: verdicts.map((verdict) => ({ over: 'another', throughput: { ratio: 1.9 }, verdict })), sentence: document.headline };
    };
    assert.equal(await tone(best('faster', 'faster')), 'headline faster');
    assert.equal(await tone(best('faster', 'inconclusive')), 'headline neutral');
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
