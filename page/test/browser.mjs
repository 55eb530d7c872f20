// A real browser for the tests.
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import { LAUNCH, PATIENCE_MS, skip } from './chromium.mjs';

export { PATIENCE_MS, skip };

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

export const launch = () => chromium.launch(LAUNCH);

/** The program that renders a document; built when the environment names none. */
let renderer = process.env.FORKFUL_PAGE;

/** The page of a document, by the same code that the command uses. */
export function render(document) {
  if (!renderer) {
    execFileSync('cargo', ['build', '--quiet', '--locked', '-p', 'forkful-lab', '--example', 'page'], { cwd: root });
    renderer = path.join(process.env.CARGO_TARGET_DIR ?? path.join(root, 'target'), 'debug/examples/page');
  }
  return execFileSync(renderer, { input: JSON.stringify(document), encoding: 'utf8', maxBuffer: 16 * 1024 * 1024 });
}

/** Opens a page and gathers what it says in the console and asks of the network. */
export async function openPage(browser, file, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const said = [];
  const asked = [];
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(String(error)));
  page.on('request', (request) => asked.push(request.url()));
  const url = pathToFileURL(file).href;
  await page.goto(url, { waitUntil: 'load' });
  await page.waitForSelector('#page > main');
  return { page, context, said, asked: asked.filter((address) => address !== url && !address.startsWith('data:')) };
}

/** Runs in the page: what each plot's drawing holds. */
export function drawnPlots() {
  return [...document.querySelectorAll('figure.plot')].map((figure) => {
    const canvas = figure.querySelector('canvas');
    const drawing = figure.querySelector('.drawing');
    if (!canvas) return { name: drawing.getAttribute('aria-label').slice(0, 60), drawn: drawing.querySelectorAll('svg circle, svg rect, svg path, svg line').length > 2 };
    // Axes are drawn in greys; what counts is the colours of lines.
    const lines = [0, 1, 2, 3, 4].map((slot) => getComputedStyle(document.documentElement).getPropertyValue(`--series-${slot}`).trim().slice(1))
      .map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let pixels = 0;
    for (let index = 0; index < data.length; index += 4) {
      if (lines.some((color) => color.every((value, part) => Math.abs(value - data[index + part]) < 12))) pixels += 1;
    }
    return { name: drawing.getAttribute('aria-label').slice(0, 60), drawn: pixels > 20, pixels };
  });
}
