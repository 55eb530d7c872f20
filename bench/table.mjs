#!/usr/bin/env node
// Makes the tables of docs/BENCHMARKS.md from raw data (runs with --baseline get a table together), and keeps a small copy of each result in bench/summaries/.
// usage: node bench/table.mjs [--dry] [raw-file.json ...]      without files: the newest result of each benchmark

import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { REPOSITORY, RESULTS, SUMMARIES } from './lib/paths.mjs';
import { besideBaseline, markdown } from './lib/summary.mjs';

const PAGE = path.join(REPOSITORY, 'docs/BENCHMARKS.md');
/** Fewer rounds than this are no record, unless the benchmark says otherwise (`roundsMin`). */
const ROUNDS_MIN = 3;

const read = (file) => JSON.parse(readFileSync(file, 'utf8'));

/** Whether another build was measured beside this one (`--baseline`): such runs have a separate table. */
const hasBaseline = (result) => result.samples.some((sample) => sample.case.startsWith('baseline'));

const benchmarkOf = (result) => import(`./benches/${result.benchmark}.mjs`);
const isRecord = async (result) => !result.quick && result.rounds >= ((await benchmarkOf(result)).roundsMin ?? ROUNDS_MIN);

/** The newest result of each benchmark that may be kept: not quick, enough rounds. */
async function newest() {
  const files = existsSync(RESULTS) ? readdirSync(RESULTS).filter((name) => name.endsWith('.json') && !/-(quick|partial)\.json$/.test(name)) : [];
  const latest = new Map();
  for (const name of files.sort()) {
    const result = read(path.join(RESULTS, name));
    if (await isRecord(result)) latest.set(`${result.benchmark}-${hasBaseline(result) ? 'baseline' : result.workers}`, result);
  }
  return [...latest.values()];
}

/** "Run of …": what a reader needs besides the numbers. */
function provenance(result) {
  const { machine, versions } = result;
  const disturbed = result.samples.filter((sample) => sample.final && sample.cpu?.disturbed).length;
  const failed = result.samples.filter((sample) => sample.final && sample.error !== undefined).length;
  const arms = Object.entries(versions).map(([arm, version]) => `${arm}: ${version ?? 'unknown'}`).join(' · ');
  return [
    `\`${result.command.replace(/ --seed \d+/, '')} --seed ${result.seed}\`, ${String(result.finished).slice(0, 10)}, ${result.rounds} round${result.rounds === 1 ? '' : 's'}, commit ${machine.commit}, `
    + `${machine.cores} cores of ${machine.cpu}${machine.virtual ? ' (virtual)' : ''}, ${machine.memoryGiB} GiB, Linux ${machine.kernel}, Node ${machine.node}.`
    + `${disturbed > 0 ? ` ${disturbed} samples stayed disturbed by other work.` : ''}${failed > 0 ? ` ${failed} samples failed.` : ''}`,
    `Versions: ${arms}.`,
  ].join(' ');
}

/** The part of the page between this section's marks, replaced. */
function replaceSection(page, name, text) {
  const [open, close] = [`<!-- table:${name} -->`, `<!-- /table:${name} -->`];
  const from = page.indexOf(open);
  const to = page.indexOf(close);
  if (from < 0 || to < from) throw new Error(`${PAGE} has no place for "${name}": put ${open} and ${close} there`);
  return `${page.slice(0, from)}${open}\n${text}\n${page.slice(to)}`;
}

async function main() {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { dry: { type: 'boolean', default: false } } });
  const results = positionals.length > 0 ? positionals.map(read) : await newest();
  const records = await Promise.all(results.map(isRecord));
  const short = results.find((_, at) => !records[at]);
  if (short !== undefined && !values.dry) throw new Error(`${short.benchmark}: ${short.rounds} rounds are no record, it takes more (--dry shows the table)`);
  if (results.length === 0) throw new Error(`no result with at least ${ROUNDS_MIN} rounds in ${RESULTS}`);
  let page = readFileSync(PAGE, 'utf8');
  const sections = new Map();
  for (const result of results) {
    const benchmark = await benchmarkOf(result);
    const isBeside = hasBaseline(result);
    const tables = isBeside ? [{ ...besideBaseline(result, benchmark.measures ?? {}), title: result.benchmark }] : benchmark.tables(result);
    const section = isBeside ? 'baseline' : result.benchmark;
    const text = [...tables.map(markdown), provenance(result)].join('\n\n');
    sections.set(section, [...(sections.get(section) ?? []), text]);
    const { samples, ...head } = result;
    if (!values.dry) {
      mkdirSync(SUMMARIES, { recursive: true });
      const file = path.join(SUMMARIES, `${result.benchmark}-${isBeside ? 'baseline' : result.workers}.json`);
      writeFileSync(file, `${JSON.stringify({ ...head, sampleCount: samples.length, tables }, null, 1)}\n`);
    }
  }
  for (const [name, texts] of sections) {
    if (values.dry) process.stdout.write(`\n${texts.join('\n\n')}\n`);
    else page = replaceSection(page, name, texts.join('\n\n'));
  }
  if (!values.dry) writeFileSync(PAGE, page);
}

main().catch((error) => {
  process.stderr.write(`error: ${error.message}\n`);
  process.exitCode = 1;
});
