// The code of a documentation page, run as a reader would: its files are written, its shell blocks run one after the other in one directory.
//
// - A block whose first line names a file in a comment (`// app.js`, `# nginx.conf`) is that file.
// - `sh` blocks run with `bash -e`. A `text` block right after one is what it prints; figures may differ, `…` stands for lines left out.
// - A block below `<!-- not run: reason -->` is not run, and `<!-- run: command -->` is run without being shown.
// - Dockerfiles, YAML and JSON without a name, and excerpts in JavaScript are read by their grammar; `lib/commands.mjs` looks at the commands in them.
// - Excerpts in TypeScript are declarations, which `site/reference.mjs` takes from the package.
// - A page about an example of `examples/` is run in a copy of its folder, and its files are the example's.
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';

import { parseAllDocuments } from 'yaml';

import { NEWEST, nodeBinary } from './nodes.mjs';
import { binary } from './sandbox.mjs';

const DOCS = fileURLToPath(new URL('../../../docs/', import.meta.url));
const PACKAGE = fileURLToPath(new URL('../../../npm/forkful', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../../examples/', import.meta.url));
const FENCE = /(<!-- not run: [^\n]+ -->\n)?^ *```(\w*)\n([\s\S]*?)^ *```$|^<!-- run: (.+) -->$/gm;
const FILE = /^(?:\/\/|#) ([\w.-]+(?:\/[\w.-]+)*\.\w+|Dockerfile)\n/;
/** Ports in pages; each run uses other ports instead. */
const PORTS = ['3000', '3001', '8080'];
/** The app of a page that shows none. */
const APP = `require('node:http').createServer((request, response) => response.end('hello\\n')).listen(process.env.PORT ?? 3000);\n`;

/** @typedef {{ kind: 'file' | 'sh' | 'text', name?: string, text: string }} Block */

/** Checks what is no program by its grammar. Gives whether the language has one here. @param {string} language @param {string} text */
function isWellFormed(language, text) {
  if (language === 'yaml') {
    for (const { errors } of parseAllDocuments(text)) assert.deepEqual(errors, []);
  } else if (language === 'json') {
    JSON.parse(text);
  } else if (language === 'ts') {
    return true;
  } else if (language === 'js') {
    new Script(`async () => {${text}}`);
  } else if (language === 'dockerfile') {
    for (const line of text.split('\n').filter(Boolean)) assert.match(line, /^(FROM|RUN|WORKDIR|COPY|USER|ENV|CMD|HEALTHCHECK|EXPOSE|ENTRYPOINT) |^ {2,}|^#/);
  } else {
    return false;
  }
  return true;
}

/** Every page. */
export const pages = () => readdirSync(DOCS).filter((file) => file.endsWith('.md')).sort();

/** On a busy machine an app may listen later than a command waits: a refused connection (7) is retried. */
const PATIENCE = 'curl() { local n code; for n in {1..240}; do command curl "$@" && return; code=$?; [ $code = 7 ] || return $code; sleep 0.5; done; return 7; }\n';

/** What of a page is run, in its order. @param {string} page @returns {Block[]} */
export function blocks(page) {
  const found = [];
  for (const [, skipped, language, text, hidden] of readFileSync(path.join(DOCS, page), 'utf8').matchAll(FENCE)) {
    if (hidden) found.push({ kind: 'sh', text: hidden });
    if (skipped || hidden) continue;
    const name = FILE.exec(text)?.[1];
    if (name) found.push({ kind: 'file', name, text });
    else if (isWellFormed(language, text)) continue;
    else if (language === 'sh' || language === 'text') found.push({ kind: language, text });
    else assert.fail(`${page}: a block of ${language || 'no language'} is neither a file, nor run, nor said to be not run:\n${text}`);
  }
  return found;
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', () => resolve(undefined)); });
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  await new Promise((resolve) => { server.close(resolve); });
  return String(port);
}

/** What a line of output looks like with other figures, as a regular expression. @param {string} line */
function pattern(line) {
  const words = line.trim().split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/\d+(?:\\\.\d+)?/g, '[\\d.]+'));
  return new RegExp(words.join('\\s+'));
}

/** The files of a page about an example are those of the example, which its own tests load and reload. @param {string} page @param {string} example */
export function checkExample(page, example) {
  const files = blocks(page).filter(({ kind }) => kind === 'file');
  assert.ok(files.length > 0, `${page} shows files`);
  for (const { name, text } of files) {
    const [, ...lines] = text.split('\n');
    assert.equal(lines.join('\n'), readFileSync(path.join(EXAMPLES, example, name), 'utf8'), `${page}: ${name}`);
  }
}

/** Makes the folder that a page is run in. @param {string} folder @param {string} app a script for pages that show none @param {string} [example] */
function prepare(folder, app, example) {
  if (!example) {
    mkdirSync(path.join(folder, 'node_modules'), { recursive: true });
    symlinkSync(PACKAGE, path.join(folder, 'node_modules/forkful'));
    for (const name of ['app.js', 'server.js']) writeFileSync(path.join(folder, name), app);
    return;
  }
  if (!existsSync(path.join(EXAMPLES, 'node_modules/next'))) throw new Error('the packages of the examples are missing: run `npm ci --prefix examples` first');
  cpSync(path.join(EXAMPLES, example), folder, { recursive: true, filter: (from) => !/\/(dist|\.next|node_modules)(\/|$)/.test(from.slice(EXAMPLES.length)) });
  symlinkSync(path.join(EXAMPLES, 'node_modules'), path.join(folder, 'node_modules'));
}

/** Runs a page. @param {import('./sandbox.mjs').Sandbox} box @param {string} page @param {{ example?: string, env?: NodeJS.ProcessEnv }} [options] */
export async function runPage(box, page, { example, env: more } = {}) {
  const folder = path.join(box.directory, 'app');
  const ports = new Map();
  for (const port of PORTS) ports.set(port, await freePort());
  /** @param {string} text */
  const own = (text) => PORTS.reduce((so, port) => so.replaceAll(new RegExp(`\\b${port}\\b`, 'g'), ports.get(port)), text);
  prepare(folder, own(APP), example);
  const env = { PATH: [path.dirname(binary()), path.dirname(nodeBinary(NEWEST)), process.env.PATH].join(':'), HOME: box.directory, FORKFUL_BIN: binary(), ...more };
  let printed = '';
  for (const block of blocks(page)) {
    if (block.kind === 'file') {
      const file = path.join(folder, block.name);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, own(block.text));
    } else if (block.kind === 'sh') {
      const outcome = await box.spawn(['-euo', 'pipefail', '-c', PATIENCE + own(block.text)], { program: 'bash', cwd: folder, env }).outcome;
      printed = outcome.stdout + outcome.stderr;
      assert.equal(outcome.code, 0, `${page}:\n${own(block.text)}\n${printed}`);
    } else {
      for (const line of own(block.text).split('\n').filter((text) => text.trim() && text.trim() !== '…')) {
        assert.match(printed, pattern(line), `${page}: what is printed`);
      }
    }
  }
}
