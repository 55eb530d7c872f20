// The built site in a real browser: every page, in light and dark, at a desk and on a phone, and what its search finds.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { LAUNCH, PATIENCE_MS, skip } from '../../page/test/chromium.mjs';
import { address, DOCS } from '../pages.mjs';
import questions from './questions.mjs';
import { serve } from './server.mjs';

const BASE = '/forkful/';
const DIST = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../dist');
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
/** What a page may transfer, all its files together, compressed. */
const BYTES_MAX = 300 * 1024;
/** How many pages are looked at side by side. */
const TABS = 2;
const PHONE = { width: 360, height: 740 };
/** Pages with all that pages consist of. The colours are the same on each page, and axe's look at them takes longer than all its others. */
const COLOURS = ['README.md', 'CONFIG.md', 'DOCKER.md'];
const DESK = { width: 1280, height: 900 };

const files = readdirSync(DOCS).filter((file) => file.endsWith('.md')).sort();
const here = (file) => `${BASE}${address(file).slice(1)}`;
let browser;
let server;

before(async () => {
  if (skip) return;
  server = await serve(DIST, BASE);
  browser = await chromium.launch(LAUNCH);
}, { timeout: PATIENCE_MS });
after(async () => {
  await browser?.close();
  await server?.close();
});

/** Runs in the page: its links, and the places that links can go to. */
function placesAndLinks() {
  return {
    links: [...document.querySelectorAll('a[href]')].map((link) => link.href),
    places: [...document.querySelectorAll('[id]')].map((element) => element.id),
  };
}

/** A tab that looks at one page after another. Each page transfers all its files, as for a new visitor. */
async function newTab(colorScheme) {
  const context = await browser.newContext({ viewport: DESK, colorScheme });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const tab = { context, page, said: [], bytes: 0 };
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) tab.said.push(message.text()); });
  page.on('pageerror', (error) => tab.said.push(String(error)));
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  session.on('Network.loadingFinished', ({ encodedDataLength }) => { tab.bytes += encodedDataLength; });
  return tab;
}

/** Everything that is to be known of a page. The frame around its text is the same on each page: axe looks at it when told to. */
async function look(tab, file, frame) {
  const { page } = tab;
  Object.assign(tab, { said: [], bytes: 0 });
  await page.setViewportSize(DESK);
  await page.goto(server.origin + here(file), { waitUntil: 'load' });
  // The scripts of the site have taken the page over: they name its switch, which tells light from dark.
  await page.waitForFunction(() => [...document.querySelectorAll('.VPSwitchAppearance')].every(({ title }) => title !== ''));
  const { links, places } = await page.evaluate(placesAndLinks);
  await page.addScriptTag({ path: AXE });
  const options = { resultTypes: ['violations'], rules: { 'color-contrast': { enabled: frame || COLOURS.includes(file) } } };
  const { violations, passes } = await page.evaluate(([part, how]) => window.axe.run(part, how), [frame ? 'html' : '.VPContent', options]);
  assert.ok(passes.length > 0, `${file}: axe has looked at nothing`);
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.length} × ${nodes[0].html.slice(0, 160)}`);
  await page.setViewportSize(PHONE);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  return { file, said: tab.said, bytes: tab.bytes, links, places, serious, width };
}

async function lookAtAll(scheme, some) {
  const queue = some.map((file, index) => ({ file, frame: index === 0 }));
  const seen = [];
  await Promise.all(Array.from({ length: Math.min(TABS, some.length) }, async () => {
    const tab = await newTab(scheme);
    try {
      for (let next = queue.shift(); next; next = queue.shift()) seen.push(await look(tab, next.file, next.frame));
    } finally {
      await tab.context.close();
    }
  }));
  return seen;
}

function faultsOf({ file, said, bytes, serious, width }) {
  return [
    ...said.map((text) => `${file}: console: ${text}`),
    ...serious.map((text) => `${file}: axe: ${text}`),
    ...(bytes > BYTES_MAX ? [`${file}: ${bytes} bytes`] : []),
    ...(width > PHONE.width ? [`${file}: ${width} pixels wide on a phone`] : []),
  ];
}

/** Links within the site that lead nowhere. */
function deadLinks(seen) {
  const places = new Map(seen.map((page) => [here(page.file), new Set(page.places)]));
  const dead = [];
  for (const { file, links } of seen) {
    for (const link of links.filter((href) => href.startsWith(server.origin))) {
      const { pathname, hash } = new URL(link);
      const there = places.get(pathname);
      if (!there || (hash && !there.has(decodeURIComponent(hash.slice(1))))) dead.push(`${file}: ${pathname}${hash}`);
    }
  }
  return dead;
}

test('each page: no word in the console, nothing serious of axe, small, as wide as a phone; each link leads somewhere', { skip }, async () => {
  const seen = await lookAtAll('light', files);
  assert.deepEqual([...new Set(seen.flatMap(faultsOf))], []);
  assert.deepEqual([...new Set(deadLinks(seen))], []);
});

test('dark pages can be read as well', { skip }, async () => {
  const seen = await lookAtAll('dark', COLOURS);
  assert.deepEqual(seen.flatMap(faultsOf), []);
});

test('links out of docs/ name files that exist', () => {
  const missing = [];
  for (const file of files) {
    for (const [, to] of readFileSync(path.join(DOCS, file), 'utf8').matchAll(/\]\((\.\.\/[^)#]+)/g)) {
      if (!existsSync(path.join(DOCS, to))) missing.push(`${file}: ${to}`);
    }
  }
  assert.deepEqual(missing, []);
});

test("the search finds a page by a new user's words", { skip }, async () => {
  const context = await browser.newContext({ viewport: DESK });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  await page.goto(`${server.origin}${BASE}`, { waitUntil: 'networkidle' });
  await page.click('#local-search button');
  for (const [words, answer] of questions) {
    await page.fill('#localsearch-input', words);
    const first = await page.waitForFunction(({ base, wanted }) => {
      const found = [...document.querySelectorAll('.VPLocalSearchBox .result')].slice(0, 5).map((result) => new URL(result.href).pathname);
      return found.includes(base + wanted.slice(1));
    }, { base: BASE, wanted: answer }).catch((cause) => { throw new Error(`"${words}" does not find ${answer}`, { cause }); });
    assert.ok(first);
  }
  await context.close();
});
