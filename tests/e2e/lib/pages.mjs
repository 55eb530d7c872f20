// The code of a documentation page, run as a reader would: its files are written, its shell blocks run one after the other in one directory.
//
// - A block whose first line names a file in a comment (`// app.js`, `# nginx.conf`) is that file.
// - `sh` blocks run with `bash -e`. A `text` block right after one is what it prints; figures may differ, `…` stands for lines left out.
// - `<!-- run: command -->` is run without being shown.
// - Below `<!-- ends with Ctrl-C after: TEXT -->` each command is interrupted when it has printed the text; the commands of a Dockerfile and of a
//   manifest are those of their containers.
// - Below `<!-- keys of an app -->` each line is validated in a configuration, and below `<!-- inside http of nginx.conf -->` a block by nginx.
// - A block below `<!-- run by PATH, PATH: reason -->` is executed by these files (`lib/elsewhere.mjs`), and one below `<!-- not run: reason -->` by nothing:
//   `docs.test.mjs` lists all of these.
// - JSON with apps is validated, and a health check of a Dockerfile is run. Other Dockerfiles, YAML and JSON without a name, and excerpts in JavaScript
//   are read by their grammar; `lib/commands.mjs` looks at the commands in them.
// - Excerpts in TypeScript are declarations, which `site/reference.mjs` takes from the package.
// - A page about an example of `examples/` is run in a copy of its folder, and its files are the example's.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Script } from 'node:vm';

import { parseAllDocuments } from 'yaml';

import { pattern } from './elsewhere.mjs';
import { freePort } from './http.mjs';
import { NEWEST, nodeBinary } from './nodes.mjs';
import { binary } from './sandbox.mjs';
import { waitUntil } from './wait.mjs';

const DOCS = fileURLToPath(new URL('../../../docs/', import.meta.url));
const PACKAGE = fileURLToPath(new URL('../../../npm/forkful', import.meta.url));
const EXAMPLES = fileURLToPath(new URL('../../../examples/', import.meta.url));
const FENCE = /(?:^ *<!-- (not run|run by|ends with Ctrl-C after|keys of an app|inside http of nginx\.conf)(?::? ([^\n]+))? -->\n)?^ *```(\w*)\n([\s\S]*?)^ *```$|^<!-- run: (.+) -->$/gm;
const FILE = /^(?:\/\/|#) ([\w.-]+(?:\/[\w.-]+)*\.\w+|Dockerfile)\n/;
/** Ports in pages; each run uses other ports instead. */
const PORTS = ['3000', '3001', '8080', '9640'];
/** The app of a page that shows none. */
const APP = `require('node:http').createServer((request, response) => response.end('hello\\n')).listen(process.env.PORT ?? 3000);\n`;

/** Kinds of blocks that a marker makes. */
const MARKED = { 'ends with Ctrl-C after': 'interrupted', 'keys of an app': 'keys', 'inside http of nginx.conf': 'nginx' };
/** From Ctrl-C: an exit code, or the signal. */
const INTERRUPTED = [0, 130, 'SIGINT'];

/** @typedef {{ kind: 'file' | 'sh' | 'text' | 'interrupted' | 'keys' | 'nginx' | 'config', name?: string, text: string, after?: string }} Block */

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

/**
 * On a busy machine an app may listen later than a command waits, so that a start is followed by a wait for it, a refused connection (7) is retried,
 * and the figures of a load may not be reliable (6).
 */
const PATIENCE = `
curl() { local n code; for n in {1..240}; do command curl "$@" && return; code=$?; [ $code = 7 ] || return $code; sleep 0.5; done; return 7; }
forkful() {
  local n code=0; command forkful "$@" || code=$?
  case "$code $*" in '0 start'*) for n in {1..360}; do
    case "$(command forkful list --json)" in *'does not listen on any port'*) sleep 0.5;; *) break;; esac
  done;; esac
  [ $code = 6 ] || return $code
}
`;

/** What the containers of a Dockerfile or a manifest run, as lines of a shell. @param {string} language @param {string} text */
function containerCommands(language, text) {
  const [, list] = { dockerfile: /^CMD (\[.*\])$/m, yaml: /^ *command: (\[.*\])$/m }[language]?.exec(text) ?? [];
  return list && JSON.parse(list).map((word) => `'${word}'`).join(' ');
}

/** The blocks of a page, with their markers. @param {string} page */
function* fences(page) {
  for (const [, marker, about, language, text, hidden] of readFileSync(path.join(DOCS, page), 'utf8').matchAll(FENCE)) yield { marker, about, language, text, hidden };
}

/** The blocks that other files execute. @param {string} page */
export const elsewhere = (page) => [...fences(page)].filter(({ marker }) => marker === 'run by')
  .map(({ about, language, text }) => ({ by: about.split(': ')[0].split(', '), language, text }));

/** Why blocks of a page are executed by nothing. @param {string} page */
export const notRun = (page) => [...fences(page)].filter(({ marker }) => marker === 'not run').map(({ about }) => about);

/** What has no name and no marker, and is run or validated nevertheless. @param {string} language @param {string} text @returns {Block[]} */
function unnamed(language, text) {
  if (language === 'sh' || language === 'text') return [{ kind: language, text }];
  const [, check] = language === 'dockerfile' && /^HEALTHCHECK CMD (.+)$/m.exec(text) || [];
  if (check) return [{ kind: 'sh', text: check }];
  return language === 'json' && 'apps' in JSON.parse(text) ? [{ kind: 'config', text }] : [];
}

/** What of a page is run, in its order. @param {string} page @returns {Block[]} */
export function blocks(page) {
  const found = [];
  for (const { marker, about, language, text, hidden } of fences(page)) {
    if (hidden) found.push({ kind: 'sh', text: hidden });
    else if (marker in MARKED) found.push({ kind: MARKED[marker], text: containerCommands(language, text) ?? text, after: about });
    if (marker || hidden) continue;
    const name = FILE.exec(text)?.[1];
    if (name) {
      found.push({ kind: 'file', name, text });
      continue;
    }
    const known = unnamed(language, text);
    found.push(...known);
    assert.ok(isWellFormed(language, text) || known.length > 0, `${page}: a block of ${language || 'no language'} is neither a file, nor run, nor said to be not run:\n${text}`);
  }
  return found;
}

/** Whether nothing listens on a port. @param {number} port */
async function isFree(port) {
  const server = createServer();
  const listens = await new Promise((resolve) => { server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true)); });
  if (listens) await new Promise((resolve) => { server.close(resolve); });
  return listens;
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

/**
 * Runs each command of a block until it has printed the text, and interrupts it as a terminal does: with all processes of its pipe.
 * @param {Run} run @param {Block} block
 */
async function interrupt({ spawn }, { text, after }) {
  for (const command of text.split('\n').map((line) => line.replace(/\s+#.*/, '')).filter(Boolean)) {
    const running = spawn(command, { detached: true });
    const printed = () => running.stdout + running.stderr;
    const ended = () => running.child.exitCode !== null || running.child.signalCode !== null;
    await waitUntil(`${command} to print ${after}`, () => printed().includes(after) || ended());
    assert.ok(printed().includes(after), `${command}:\n${printed()}`);
    if (!ended()) process.kill(-running.child.pid, 'SIGINT');
    const { code, signal } = await running.outcome;
    assert.ok(INTERRUPTED.includes(code ?? signal), `${command}: ended with ${code ?? signal}\n${printed()}`);
  }
}

/** Validates a configuration for each line, which has a key of an app. @param {Run} run @param {Block} block */
async function validate({ folder, shell }, { text }) {
  for (const [at, line] of text.split('\n').filter((one) => one.trim()).entries()) {
    const file = path.join(folder, `keys-${at}.config.js`);
    writeFileSync(file, `module.exports = { apps: [{ name: 'app', script: 'app.js',\n${line}\n}] };\n`);
    await shell(`forkful validate ${path.basename(file)}`);
  }
}

/** Validates a configuration. @param {Run} run @param {Block} block */
async function validateWhole({ folder, shell }, { text }) {
  writeFileSync(path.join(folder, 'whole.config.json'), text);
  await shell('forkful validate whole.config.json');
}

/** Lets nginx check a block. @param {Run} run @param {Block} block */
async function checkByNginx({ folder, shell }, { text }) {
  writeFileSync(path.join(folder, 'part.conf'), `pid nginx.pid; error_log stderr; events {} http { access_log off;\n${text}}\n`);
  if (spawnSync('nginx', ['-v']).error) return console.warn('SKIPPED: there is no nginx to check a block of its configuration with');
  await shell('nginx -t -q -p "$PWD" -c part.conf 2>&1');
}

/**
 * @typedef {{ folder: string, spawn: (text: string, options?: { detached?: boolean }) => ReturnType<import('./sandbox.mjs').Sandbox['spawn']>, shell: (text: string) => Promise<string> }} Run
 */

/** The free ports that stand for those of the pages; the second one follows the first, as on a page. */
async function freePorts() {
  for (;;) {
    const found = await Promise.all(PORTS.map(freePort));
    found[1] = found[0] + 1;
    if (new Set(found).size === found.length && await isFree(found[1])) return new Map(PORTS.map((port, at) => [port, String(found[at])]));
  }
}

/** Runs a page. @param {import('./sandbox.mjs').Sandbox} box @param {string} page @param {{ example?: string, env?: NodeJS.ProcessEnv }} [options] */
export async function runPage(box, page, { example, env: more } = {}) {
  const folder = path.join(box.directory, 'app');
  const ports = await freePorts();
  /** @param {string} text */
  const own = (text) => PORTS.reduce((so, port) => so.replaceAll(new RegExp(`\\b${port}\\b`, 'g'), ports.get(port)), text);
  prepare(folder, own(APP), example);
  const env = {
    PATH: [path.dirname(binary()), path.dirname(nodeBinary(NEWEST)), process.env.PATH].join(':'), HOME: box.directory, FORKFUL_BIN: binary(), RUNNER_TEMP: box.directory, ...more,
  };
  const spawn = (text, options) => box.spawn(['-euo', 'pipefail', '-c', PATIENCE + own(text)], { program: 'bash', cwd: folder, env, ...options });
  const shell = async (text) => {
    const outcome = await spawn(text).outcome;
    const printed = outcome.stdout + outcome.stderr;
    assert.equal(outcome.code, 0, `${page}:\n${own(text)}\n${printed}`);
    return printed;
  };
  let printed = '';
  for (const block of blocks(page)) {
    if (block.kind === 'file') {
      const file = path.join(folder, block.name);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, own(block.text));
    } else if (block.kind === 'sh') {
      printed = await shell(block.text);
    } else if (block.kind === 'text') {
      for (const line of own(block.text).split('\n').filter((text) => text.trim() && text.trim() !== '…')) {
        assert.match(printed, pattern(line), `${page}: what is printed`);
      }
    } else {
      const act = { interrupted: interrupt, keys: validate, nginx: checkByNginx, config: validateWhole }[block.kind];
      await act({ folder, spawn, shell }, { ...block, text: own(block.text) });
    }
  }
}
