// Pages of real results: what the command writes, opened in a real browser. What it prints with `--json` meanwhile is held against its
// schema here, because such runs are long.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { checkOutput } from '../../tests/e2e/lib/outputs.mjs';
import { drawnPlots, launch, openPage, skip } from './browser.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const forkful = process.env.FORKFUL_BIN ?? path.join(root, 'target/release/forkful');
const reason = skip || (existsSync(forkful) ? false : `${forkful} is not built`);
if (reason && reason !== skip) console.error(`\n!! ${reason}: pages of real results are NOT tested. cargo build --release\n`);

/** Exit codes of what was measured: all well, and not to be trusted, as on a busy machine. */
const MEASURED = [0, 6];
const WRONG_USE = 2;

/** Runs the command beside this process, whose server it may ask, and yields its output. A budget that this machine cannot keep is left out. */
async function measured(args, cwd, budget = []) {
  const { code, out } = await new Promise((resolve) => {
    const child = execFile(forkful, [...args, ...budget], { cwd, env: { ...process.env, FORKFUL_HOME: path.join(cwd, 'home') } }, (error, out, err) => {
      resolve({ code: error ? error.code : 0, out });
      if (error && !MEASURED.includes(error.code)) console.error(err);
    });
    child.stdin.end();
  });
  if (code === WRONG_USE && budget.length > 0) return measured(args, cwd);
  assert.ok(MEASURED.includes(code), `forkful ${args[0]} ended with ${code}`);
  return out;
}

describe('pages of real results', { skip: reason }, () => {
  let browser;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'forkful-real-'));
  before(async () => { browser = await launch(); });
  after(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Opens the file, wide and light, narrow and dark: all plots are drawn, and nothing goes wrong. */
  async function isWhole(file, plots, holds = []) {
    for (const options of [{}, { viewport: { width: 360, height: 740 }, colorScheme: 'dark' }]) {
      const { page, context, said, asked } = await openPage(browser, file, options);
      const drawn = await page.evaluate(drawnPlots);
      assert.ok(drawn.length >= plots, `${drawn.length} plots`);
      assert.deepEqual(drawn.filter((plot) => !plot.drawn), []);
      assert.deepEqual([said, asked], [[], []]);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth));
      const text = await page.innerText('#page');
      for (const what of holds) assert.ok(text.includes(what), `no ${what} in ${text}`);
      await context.close();
    }
  }

  test('bench', async () => {
    const server = http.createServer((_, answer) => answer.end('hello\n')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      const file = path.join(folder, 'bench.html');
      const url = `http://127.0.0.1:${server.address().port}/`;
      await measured(['bench', '-n', '2000', '-c', '10', '--html', file, url], folder);
      await isWhole(file, 4, [`GET ${url}`, '2,000']);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  test('compare', async () => {
    const file = path.join(folder, 'compare.html');
    writeFileSync(path.join(folder, 'server.js'), "require('http').createServer((_, answer) => answer.end('ok')).listen(Number(process.env.PORT));");
    const output = await measured(['compare', 'server.js', '--path', '/', '--blocks', '2', '--html', file, '--json'], folder, ['--budget', '20s']);
    checkOutput('compare', JSON.parse(output));
    await isWhole(file, 1, ['single', 'cluster']);
  });

  for (const [name, plots] of [['thread-pool', 3], ['fibonacci', 4]]) {
    test(`the experiment ${name}`, async () => {
      const file = path.join(folder, `${name}.html`);
      const output = execFileSync(forkful, ['experiment', name, '--scale', '0.1', '--html', file, '--json'], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
      checkOutput('experiment', JSON.parse(output));
      await isWhole(file, plots);
    });
  }
});
