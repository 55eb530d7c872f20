// Builds the result page and the dashboard into the files that the Rust crates embed. `--check` builds them too,
// but only compares: the committed files must match their sources.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { build } from 'vite';

const here = path.dirname(fileURLToPath(import.meta.url));
const report = path.resolve(here, '../crates/forkful-lab/src/page/report.html');
const dashboard = path.resolve(here, '../crates/forkful-daemon/src/server/dashboard/page');
/** A page with its data stays below 300 KB; this leaves the data the larger part. */
const BYTES_MAX = 120_000;
/** The whole dashboard, compressed with gzip. */
const DASHBOARD_BYTES_MAX = 150_000;

async function bundle(entry) {
  const { output } = await build({
    root: here,
    configFile: false,
    logLevel: 'warn',
    build: {
      write: false,
      minify: true,
      cssMinify: true,
      target: 'es2022',
      modulePreload: false,
      rollupOptions: { input: path.join(here, entry), output: { format: 'es' } },
    },
  });
  const script = output.find((file) => file.type === 'chunk' && file.isEntry).code.trim();
  const style = String(output.find((file) => file.type === 'asset' && file.fileName.endsWith('.css')).source).trim();
  return { script, style };
}

const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

function page({ script, style }) {
  if (/<\/(script|style)/i.test(script + style)) throw new Error('the bundle would end its own element');
  const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data:; base-uri 'none'; form-action 'none'`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{{title}}</title>
<style>${style}</style>
</head>
<body>
<div id="page"><h1>{{title}}</h1><p>{{headline}}</p><noscript><p>The plots of this page are drawn by JavaScript, which is switched off.</p></noscript></div>
<script type="application/json" id="report-data">{{data}}</script>
<script type="module">${script}</script>
</body>
</html>
`;
}

const html = page(await bundle('src/main.tsx'));
if (html.length > BYTES_MAX) throw new Error(`the page has ${html.length} bytes, more than ${BYTES_MAX}`);
const { script, style } = await bundle('src/dashboard/main.tsx');
const files = {
  [report]: html,
  [path.join(dashboard, 'index.html')]: readFileSync(path.join(here, 'src/dashboard/index.html'), 'utf8'),
  [path.join(dashboard, 'app.js')]: `${script}\n`,
  [path.join(dashboard, 'style.css')]: `${style}\n`,
};
const packed = gzipSync(Object.entries(files).filter(([file]) => file !== report).map(([, text]) => text).join('')).length;
if (packed > DASHBOARD_BYTES_MAX) throw new Error(`the dashboard has ${packed} bytes, more than ${DASHBOARD_BYTES_MAX}`);
for (const [file, text] of Object.entries(files)) {
  const name = path.relative(process.cwd(), file);
  if (!process.argv.includes('--check')) {
    writeFileSync(file, text);
    console.log(`${name}: ${text.length} bytes`);
  } else if (readFileSync(file, 'utf8') !== text) {
    console.error(`error: ${name} is not what its sources make\n\nhint: npm run build --prefix page`);
    process.exitCode = 1;
  }
}
if (!process.argv.includes('--check')) console.log(`the dashboard, packed: ${packed} bytes`);
