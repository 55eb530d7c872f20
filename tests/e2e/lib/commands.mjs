// Compares the commands in pages of docs/ with docs/CLI.md, which is generated from the command line.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const DOCS = fileURLToPath(new URL('../../../docs/', import.meta.url));
/** Pages about other command lines: those of load tools, of PM2, and the reference itself. */
const LEFT_OUT = new Set(['CLI.md', 'FROM-PM2.md']);
/** Commands that Forkful or its packages run internally: help and the reference omit them. */
const INTERNAL = new Set(['complete', 'daemon', 'guard', 'man']);
const EVERYWHERE = ['--help', '--silent', '--no-color', '--version', '-h', '-s', '-V'];

const read = (page) => readFileSync(path.join(DOCS, page), 'utf8');

/** The options of each command, by its name (`deploy`, `import pm2`) and its aliases. @returns {Map<string, Set<string>>} */
function reference() {
  const known = new Map();
  for (const section of read('CLI.md').split(/^### forkful /m).slice(1)) {
    const [name] = section.split('\n', 1);
    const options = new Set(EVERYWHERE);
    for (const [, cell] of section.matchAll(/^\| `(-[^`]*)`/gm)) {
      for (const [option] of cell.matchAll(/--?[a-z][a-z0-9-]*/gi)) options.add(option);
    }
    const aliases = /^Also: (.*)\.$/m.exec(section)?.[1].match(/[\w:-]+/g) ?? [];
    for (const one of [name.trim(), ...aliases]) known.set(one, options);
  }
  return known;
}

/** The commands of a page: in its blocks and in its lines. @param {string} text */
function* commands(text) {
  for (const [, block] of text.matchAll(/^```(?:sh)?\n([\s\S]*?)^```$/gm)) {
    for (const line of block.replaceAll('\\\n', ' ').split('\n')) {
      const found = /(?:^|[;&|(] *|\b(?:sudo|npx|then|until) +)forkful +([a-z].*)/.exec(line);
      if (found) yield found[1].replace(/\s+#.*|\s{3,}.*/, '');
    }
  }
  for (const [, line] of text.matchAll(/(?<!`)`forkful ([a-z][^`]*)`/g)) yield line;
  // Commands that containers run, `["forkful", "run", …]`, and steps of workflows.
  for (const [list] of text.matchAll(/\["forkful", "[a-z][^\]\n]*\]/g)) yield JSON.parse(list).slice(1).map((word) => (/\s/.test(word) ? 'TEXT' : word)).join(' ');
  for (const [, line] of text.matchAll(/\brun: forkful +([a-z].*)/g)) yield line;
}

/** Commands and options in pages that the command line does not have. */
export function unknownCommands() {
  const known = reference();
  const faults = [];
  for (const page of readdirSync(DOCS).filter((file) => file.endsWith('.md') && !LEFT_OUT.has(file))) {
    for (const command of commands(read(page))) {
      // Text after another command, a redirection, or `--` is not Forkful's; quoted texts are values.
      const words = command.replace(/'[^']*'|"[^"]*"/g, 'TEXT').split(/ -- | && |[|;>&)]/)[0].trim().replace(/(--[\w-]+)=\S*/g, '$1').split(/\s+/);
      if (INTERNAL.has(words[0])) continue;
      const options = known.get(words.slice(0, 2).join(' ')) ?? known.get(words[0]);
      if (!options) faults.push(`${page}: forkful ${command}: no such command`);
      for (const word of options ? words.filter((one) => /^--?[a-z]/i.test(one)) : []) {
        if (!options.has(word)) faults.push(`${page}: forkful ${command}: no option ${word}`);
      }
    }
  }
  return { faults, commands: known.size };
}
