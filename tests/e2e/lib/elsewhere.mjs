// Blocks of documentation pages that another test executes: `<!-- run by PATH, PATH: reason -->`. Each command of the block must be in one of these
// files, as its program or subcommand and its options; names, numbers and hosts may differ. Each line of an output must be there, too.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const DOCS = path.join(ROOT, 'docs');

/** Words after the subcommand that say what is done, unlike names. */
const VERBS = new Set(['setup', 'revert', 'kubernetes', 'systemd', 'start', 'build', 'xzf', 'apply', 'stop', 'enable', 'status', 'restart']);
/** Programs whose first word is no subcommand. */
const WITHOUT_SUBCOMMAND = new Set(['curl', 'node', 'sh', 'sha256sum', 'tar', 'rsync', 'ssh', 'dpkg', 'dev/chaos', 'jq', 'ln']);
/** Short options, with the long form that a test may use instead. */
const LONG = { '-i': '--instances', '-g': '--global', '-d': '--duration', '-c': '--connections', '-f': '--fail' };
/** Commands that need no proof. */
const PLAIN = new Set(['mkdir', 'less', 'ls', 'cd', 'echo']);
/** The share of a line's pairs of words that must be in the source of an output: the rest are names of the example. */
const SHARE_MIN = 0.7;

/** The commands of a block: of a shell, of a list with explanations, or of a JSON configuration. @param {string} language @param {string} text */
export function commandsOf(language, text) {
  if (language === 'json') {
    const found = [];
    JSON.parse(text, (_key, value) => {
      if (typeof value?.command === 'string') found.push([value.command, ...value.args ?? []].join(' '));
      return value;
    });
    return found;
  }
  const lines = text.replaceAll('\\\n', ' ').split('\n').map((line) => line.replace(/(^|\s+)#.*|(?<=\S)\s{3,}.*/, '').trim());
  return lines.flatMap((line) => line.split(/\s+(?:&&|\|\||[|;&])(?:\s+|$)/)).map((command) => command.replace(/\s*>+\s*\S+/g, '').trim())
    .filter((command) => command !== '' && !PLAIN.has(command.split(' ')[0]));
}

/** What of a command must be where it is executed. @param {string} command */
export function essence(command) {
  const words = (command.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? []).filter((word, at, all) => !/^[A-Z_]+=/.test(word) || all.slice(0, at).some((one) => !/^[A-Z_]+=/.test(one)));
  if (words[0] === 'sudo' || (words[0] === 'npx' && words[1] !== 'forkful')) words.shift();
  const [program, ...rest] = words;
  const options = rest.filter((word) => /^--?[a-z]/i.test(word)).map((word) => word.replace(/=.*/s, ''));
  const named = rest.filter((word) => !word.startsWith('-'));
  const subcommand = WITHOUT_SUBCOMMAND.has(program) || !/^[a-z:-]+$/i.test(named[0] ?? '') ? [] : [named.shift()];
  const verbs = named.filter((word) => VERBS.has(word));
  return [...(program === 'forkful' ? [] : [path.basename(program)]), ...subcommand, ...verbs, ...options];
}

/** A file without its comments, cut into tests, or into lines where it has none. @param {string} text */
function units(text) {
  const code = text.replaceAll(/^\s*(?:\/\/|#(?!\[)|\*|\/\*).*$/gm, '').replaceAll('\\\n', ' ');
  const tests = code.split(/^(?=\s*(?:#\[test\]|func Test|(?:await )?(?:t\.)?(?:test|it)\())/m);
  return { code, parts: tests.length > 1 ? tests : code.split('\n') };
}

/** The functions and constants of a file, each with its text to the end of its indentation. @param {string} code @returns {Map<string, string>} */
function declarations(code) {
  const found = new Map();
  const lines = code.split('\n');
  for (const [at, line] of lines.entries()) {
    const [, indent, name] = /^( *)(?:export |pub\S* |async )*(?:fn|func|function|const|let|static) (\w+)/.exec(line) ?? [];
    if (name === undefined) continue;
    const inOne = /;$/.test(line);
    const end = inOne ? at : lines.findIndex((other, index) => index > at && other.startsWith(indent) && /^[}\])]/.test(other.slice(indent.length)));
    found.set(name, `${found.get(name) ?? ''}\n${lines.slice(at, Math.max(at, end) + 1).join('\n')}`);
  }
  return found;
}

/** A test with the functions and constants of its file that it uses. @param {string} part @param {Map<string, string>} declared */
function withUsed(part, declared) {
  const used = new Set();
  for (const queue = [part]; queue.length > 0;) {
    const text = queue.pop();
    for (const [name, body] of declared) {
      if (used.has(name) || !new RegExp(`\\b${name}\\b`).test(text)) continue;
      used.add(name);
      queue.push(body);
    }
  }
  return [part, ...[...used].map((name) => declared.get(name))].join('\n');
}

/** @param {string} text @param {string} word */
const holds = (text, word) => [word, LONG[word], ...Object.entries(LONG).filter(([, long]) => long === word).map(([short]) => short)]
  .some((one) => one !== undefined && new RegExp(`(?<![\\w-])${one.replaceAll('.', '\\.')}(?![\\w-])`).test(text));

/** Whether a file executes a command. @param {string} file its text @param {string} command */
export function executes(file, command) {
  const { code, parts } = units(file);
  const declared = declarations(code);
  // What a client requests matters, and not how.
  const [, where] = /^curl .*localhost:\d+(\/\S+)/.exec(command) ?? [];
  const wanted = where ? [where] : essence(command);
  return parts.some((part) => {
    const all = withUsed(part, declared);
    return wanted.every((word) => holds(all, word));
  });
}

/** Pairs of neighbouring words. @param {string} text */
function pairs(text) {
  const phrases = text.match(/[A-Za-z][A-Za-z'-]*(?: [A-Za-z][A-Za-z'-]*)+/g) ?? [];
  return phrases.flatMap((phrase) => phrase.split(' ').map((word, at, all) => `${word} ${all[at + 1]}`).slice(0, -1));
}

/** The lines of an output that a source does not have, by their words. @param {string} output @param {string} source */
function foreignLines(output, source) {
  const text = source.replaceAll(/\\?\n\s*/g, ' ').replaceAll(/\s+/g, ' ');
  return output.split('\n').filter((line) => {
    const all = pairs(line);
    return all.filter((pair) => text.includes(pair)).length < all.length * SHARE_MIN;
  });
}

/**
 * What is wrong with a block that other files are said to execute.
 * @param {string} page @param {{ by: string[], language: string, text: string }} block @returns {string[]}
 */
export function notExecuted(page, { by, language, text }) {
  const missing = by.filter((file) => !existsSync(path.join(ROOT, file)));
  if (missing.length > 0) return missing.map((file) => `${page}: there is no ${file}`);
  const files = by.map((file) => readFileSync(path.join(ROOT, file), 'utf8'));
  if (language === 'text') {
    // A test in JavaScript compares what is printed with the block itself.
    if (files.some((file) => hasCallFor(file, `printsLike('${page}', `, text))) return [];
    return foreignLines(text, files.join('\n')).map((line) => `${page}: ${by}: nothing prints: ${line}`);
  }
  // A test that reads the block runs it as it is.
  if (files.some((file) => hasCallFor(file, `blockOf('${page}', '${language}'`, text))) return [];
  if (!['', 'sh', 'json'].includes(language)) return [`${page}: ${by}: nothing reads the block of ${language}`];
  return commandsOf(language, text).filter((command) => !(isInstalled(by, files, command) || files.some((file) => executes(file, command))))
    .map((command) => `${page}: ${by}: nothing executes: ${command}`);
}

/** Whether a source has a call that begins so and whose next argument is some words of this block, or that takes the first block. @param {string} source @param {string} begin @param {string} text */
function hasCallFor(source, begin, text) {
  return source.split(begin).slice(1).some((rest) => {
    const [, , words] = /^(?:, )?(['"`])((?:(?!\1).)*)\1/.exec(rest) ?? [];
    return words === undefined ? rest.startsWith(')') : text.includes(words);
  });
}

/** Whether `npm install PACKAGES` is what the package.json of an example says, which `npm ci` of the tests installs. */
function isInstalled(by, files, command) {
  const at = by.findIndex((file) => file.endsWith('/package.json'));
  if (at < 0 || !/^npm install (?!-)/.test(command)) return false;
  const { dependencies } = JSON.parse(files[at]);
  return command.split(/\s+/).slice(2).every((name) => name in dependencies);
}

/** The first block of a page in a language that has some text. @param {string} page @param {string} language @param {string} [text] */
export function blockOf(page, language, text = '') {
  const all = readFileSync(path.join(DOCS, page), 'utf8').matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'));
  const found = [...all].map(([, block]) => block).find((block) => block.includes(text));
  assert.ok(found, `${page} has no block of ${language} with: ${text}`);
  return found;
}

/**
 * Compares an output with the block of a page that shows it: figures may differ, and names where the test has others. Lines that follow each other
 * on the page do so in the output.
 * @param {string} page @param {string} begin some words of the block @param {string} output
 * @param {{ names?: Record<string, string>, without?: RegExp }} [how] what the test calls otherwise, and lines of which the output has no like
 */
export function printsLike(page, begin, output, { names = {}, without } = {}) {
  const left = (line) => line.trim() === '…' || line.startsWith('$ ') || without?.test(line) === true;
  const lines = blockOf(page, 'text', begin).split('\n').map((line) => (left(line) ? '…' : line));
  const parts = lines.join('\n').split(/^…$/m).map((text) => text.trim()).filter(Boolean);
  assert.ok(parts.length > 0, `${page}: nothing of the block with ${begin} is compared`);
  for (const part of parts) {
    const own = Object.entries(names).reduce((so, [shown, here]) => so.replaceAll(shown, here), part);
    assert.match(output, pattern(own), `${page} shows:\n${part}`);
  }
}

/** What a line of output looks like with other figures, as a regular expression; `…` stands for any words. @param {string} line */
export function pattern(line) {
  const words = line.trim().split(/\s+/).map((word) => word === '…' ? '.*' : word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/\d+(?:\\\.\d+)?/g, '[\\d.]+'));
  return new RegExp(words.join('\\s+'));
}
