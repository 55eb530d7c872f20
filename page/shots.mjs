// Takes screenshots of the page: node shots.mjs FOLDER [document.json …]
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { launch, render } from './test/browser.mjs';
import { benchDocument, compareDocument, experimentDocument, tuneDocument, hostileDocument } from './test/documents.mjs';

const [folder, ...files] = process.argv.slice(2);
const documents = files.length > 0
  ? Object.fromEntries(files.map((file) => [path.basename(file, '.json'), JSON.parse(readFileSync(file, 'utf8'))]))
  : { bench: benchDocument(), compare: compareDocument(), tune: tuneDocument(), experiment: experimentDocument(), hostile: hostileDocument() };
const browser = await launch();
for (const [name, document] of Object.entries(documents)) {
  const file = path.join(folder, `${name}.html`);
  writeFileSync(file, render(document));
  for (const [view, options] of Object.entries({
    desk: { viewport: { width: 1000, height: 800 } },
    dark: { viewport: { width: 1000, height: 800 }, colorScheme: 'dark' },
    phone: { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2 },
  })) {
    const page = await browser.newPage(options);
    page.on('console', (message) => console.log(name, message.text()));
    page.on('pageerror', (error) => console.log(name, String(error)));
    await page.goto(pathToFileURL(file).href);
    await page.waitForSelector('#page > main');
    await page.screenshot({ path: path.join(folder, `${name}-${view}.png`), fullPage: true });
    await page.close();
  }
}
await browser.close();
