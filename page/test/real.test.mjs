// Pages of real results: what the command writes, opened in a real browser.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { drawnPlots, launch, openPage, skip } from './browser.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const forkful = process.env.FORKFUL_BIN ?? path.join(root, 'target/release/forkful');
const reason = skip || (existsSync(forkful) ? false : `${forkful} is not built`);
if (reason && reason !== skip) console.error(`\n!! ${reason}: pages of real results are NOT tested. cargo build --release\n`);

describe('pages of real results', { skip: reason }, () => {
  let browser;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'forkful-real-'));
  before(async () => { browser = await launch(); });
  after(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  for (const [name, plots] of [['thread-pool', 3], ['fibonacci', 4]]) {
    test(`the experiment ${name}`, async () => {
      const file = path.join(folder, `${name}.html`);
      execFileSync(forkful, ['experiment', name, '--scale', '0.1', '--html', file], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
      for (const options of [{}, { viewport: { width: 360, height: 740 }, colorScheme: 'dark' }]) {
        const { page, context, said, asked } = await openPage(browser, file, options);
        const drawn = await page.evaluate(drawnPlots);
        assert.ok(drawn.length >= plots, `${drawn.length} plots`);
        assert.deepEqual(drawn.filter((plot) => !plot.drawn), []);
        assert.deepEqual([said, asked], [[], []]);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth));
        await context.close();
      }
    });
  }
});
