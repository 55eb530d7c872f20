// The code of a documentation page, run as a reader would: its files are written, its shell blocks run one after the other in one directory.
//
// - A block whose first line names a file in a comment (`// app.js`, `# nginx.conf`) is that file.
// - `sh` blocks run with `bash -e`. A `text` block right after one is what it prints; figures may differ, `…` stands for lines left out.
// - A block below `<!-- not run: reason -->` is not run.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { NEWEST, nodeBinary } from './nodes.mjs';
import { binary } from './sandbox.mjs';

const DOCS = fileURLToPath(new URL('../../../docs/', import.meta.url));
const FENCE = /(<!-- not run: [^\n]+ -->\n)?^```(\w*)\n([\s\S]*?)^```$/gm;
const FILE = /^(?:\/\/|#) ([\w.-]+(?:\/[\w.-]+)*\.\w+|Dockerfile)\n/;
/** Ports that pages use; each run has its own instead. */
const PORTS = ['3000', '3001', '8080'];

/** @typedef {{ kind: 'file' | 'sh' | 'text', name?: string, text: string }} Block */

/** What of a page is run, in its order. @param {string} page @returns {Block[]} */
export function blocks(page) {
  const found = [];
  for (const [, skipped, language, text] of readFileSync(path.join(DOCS, page), 'utf8').matchAll(FENCE)) {
    const name = FILE.exec(text)?.[1];
    if (skipped) continue;
    if (name) found.push({ kind: 'file', name, text });
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

/** Runs a page. @param {import('./sandbox.mjs').Sandbox} box @param {string} page */
export async function runPage(box, page) {
  const folder = path.join(box.directory, 'app');
  mkdirSync(folder);
  const ports = new Map();
  for (const port of PORTS) ports.set(port, await freePort());
  const own = (text) => PORTS.reduce((so, port) => so.replaceAll(new RegExp(`\\b${port}\\b`, 'g'), ports.get(port)), text);
  const env = { PATH: [path.dirname(binary()), path.dirname(nodeBinary(NEWEST)), process.env.PATH].join(':'), HOME: box.directory };
  let printed = '';
  for (const block of blocks(page)) {
    if (block.kind === 'file') {
      const file = path.join(folder, block.name);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, own(block.text));
    } else if (block.kind === 'sh') {
      const outcome = await box.spawn(['-euo', 'pipefail', '-c', own(block.text)], { program: 'bash', cwd: folder, env }).outcome;
      printed = outcome.stdout + outcome.stderr;
      assert.equal(outcome.code, 0, `${page}:\n${own(block.text)}\n${printed}`);
    } else {
      for (const line of own(block.text).split('\n').filter((text) => text.trim() && text.trim() !== '…')) {
        assert.match(printed, pattern(line), `${page}: what is printed`);
      }
    }
  }
}
