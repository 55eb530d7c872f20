// Builds the page into the one file that the Rust crate embeds. `--check` builds it too, but only compares:
// the committed file must be what its sources make.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const here = path.dirname(fileURLToPath(import.meta.url));
const target = path.resolve(here, '../crates/forkful-lab/src/page/report.html');
/** A page with its data stays below 300 KB; this leaves the data the larger part. */
const BYTES_MAX = 120_000;

async function bundle() {
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
      rollupOptions: { input: path.join(here, 'src/main.tsx'), output: { format: 'es' } },
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

const html = page(await bundle());
if (html.length > BYTES_MAX) throw new Error(`the page has ${html.length} bytes, more than ${BYTES_MAX}`);
if (process.argv.includes('--check')) {
  if (readFileSync(target, 'utf8') !== html) {
    console.error(`error: ${path.relative(process.cwd(), target)} is not what its sources make\n\nhint: npm run build --prefix page`);
    process.exitCode = 1;
  }
} else {
  writeFileSync(target, html);
  console.log(`${path.relative(process.cwd(), target)}: ${html.length} bytes`);
}
