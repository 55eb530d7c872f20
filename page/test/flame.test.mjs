// The flame graph of `forkful doctor --profile` in a real browser: its template with a profile whose names are hostile, by mouse, by keyboard, without eyes,
// in the dark and on a phone.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { after, before, describe, test } from 'node:test';
import { launch, PATIENCE_MS, skip } from './browser.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const part = (name) => readFileSync(new URL(`../../crates/forkful/src/output/flame/${name}`, import.meta.url), 'utf8');

const HOSTILE = '<img src=x onerror="document.title=1">';
const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** Functions and calls as `crates/forkful/src/output/flame.rs` writes them: [caller, function, µs in all, µs alone]. */
const DATA = {
  frames: [['(root)', '', 3], ['handle', 'server.js:3', 0], [HOSTILE, 'server.js:9', 0], ['next', 'node_modules/x/index.js:1', 1], ['writev', 'node:net:4', 2]],
  nodes: [[-1, 0, 1000, 0], [0, 1, 700, 100], [1, 2, 400, 400], [1, 3, 200, 150], [3, 4, 50, 50], [0, 3, 300, 300]],
};

function filled() {
  const places = {
    NONCE: 'abc', TITLE: escaped(`CPU profile of ${HOSTILE}`), ABOUT: 'Taken now.', STYLE: part('style.css'), SCRIPT: part('script.js'),
    ROWS: DATA.frames.map(([name, place]) => `<tr><td>1.0 %</td><td>1.0 %</td><td>1.0 %</td><td>${escaped(name)}</td><td>${place}</td><td>the app</td></tr>`).join('\n'),
    DATA: JSON.stringify(DATA).replaceAll('<', '\\u003c'),
  };
  return part('page.html').replaceAll(/@([A-Z]+)@/g, (_, name) => places[name]);
}

describe('the flame graph in a browser', { skip }, () => {
  let browser;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'forkful-flame-'));
  const file = path.join(folder, 'page.html');
  before(async () => {
    writeFileSync(file, filled());
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function open(options = {}) {
    const context = await browser.newContext({ viewport: { width: 1000, height: 800 }, ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    const told = [];
    page.on('console', (message) => told.push(message.text()));
    page.on('pageerror', (error) => told.push(String(error)));
    page.on('request', (request) => { if (!request.url().startsWith('file:')) told.push(request.url()); });
    await page.goto(pathToFileURL(file).href);
    await page.waitForSelector('#graph button');
    return { page, context, told };
  }

  test('names stay text, nothing is asked of anybody, and nothing is said', async () => {
    const { page, context, told } = await open();
    assert.equal(await page.title(), `CPU profile of ${HOSTILE}`);
    assert.equal(await page.locator('img').count(), 0);
    assert.equal(await page.locator('#graph button').count(), 6);
    assert.equal(await page.locator('#graph button', { hasText: HOSTILE }).count(), 1);
    assert.deepEqual(told, []);
    await context.close();
  });

  test('a click looks into a function, Escape comes back, arrows move', async () => {
    const { page, context } = await open();
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label'));
    await page.locator('#graph button', { hasText: 'handle' }).click();
    assert.equal(await page.locator('#graph button').count(), 5, 'the other call of the root is not drawn');
    assert.match(await page.locator('#detail').textContent(), /^handle \(server\.js:3\): 70\.0 % of the busy time, 10\.0 % in it alone$/);
    await page.keyboard.press('ArrowDown');
    assert.match(await focused(), /^<img src=x/);
    await page.keyboard.press('ArrowRight');
    assert.equal(await focused(), 'next (node_modules/x/index.js:1), 20.0 %');
    await page.keyboard.press('Enter');
    assert.equal(await page.locator('#graph button').count(), 4);
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('#graph button').count(), 6);
    assert.equal(await focused(), '(root), 100.0 %');
    assert.ok(await page.locator('#reset').isDisabled());
    // One stop of Tab for all of the graph.
    assert.equal(await page.locator('#graph button[tabindex="0"]').count(), 1);
    await context.close();
  });

  test('a search marks calls, counts their time once, and sifts the table', async () => {
    const { page, context } = await open();
    await page.getByLabel('Search for functions or files').fill('node_modules');
    assert.equal(await page.locator('#graph button.hit').count(), 2);
    assert.equal(await page.locator('#found').textContent(), '1 function, 50.0 % of the busy time');
    assert.equal(await page.locator('#rows tr:visible').count(), 1);
    await page.getByLabel('Search for functions or files').fill('');
    assert.equal(await page.locator('#graph button.miss').count(), 0);
    assert.equal(await page.locator('#rows tr:visible').count(), DATA.frames.length);
    await context.close();
  });

  for (const colorScheme of ['light', 'dark']) {
    test(`${colorScheme}: axe finds nothing serious, and it fits a phone`, async () => {
      const { page, context } = await open({ colorScheme, viewport: { width: 360, height: 740 } });
      await page.waitForFunction(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);
      const session = await context.newCDPSession(page);
      // By the debugger: the page's policy lets nothing in.
      await session.send('Runtime.evaluate', { expression: axe });
      const { result } = await session.send('Runtime.evaluate', {
        expression: `axe.run().then(({ violations }) => JSON.stringify(violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
          .map(({ id, nodes }) => [id, nodes.map(({ html }) => html)])))`,
        awaitPromise: true,
        returnByValue: true,
      });
      assert.equal(result.value, '[]');
      await context.close();
    });
  }
});
