#!/usr/bin/env node
// The entry point of all benchmarks. `node bench/run.mjs --help` explains the options; docs/BENCHMARKS.md explains the results.

import os from 'node:os';
import { parseArgs } from 'node:util';
import { ARMS } from './lib/arms.mjs';
import { machine, makeContext, record } from './lib/context.mjs';
import { stopAll } from './lib/server.mjs';
import { besideBaseline, markdown } from './lib/summary.mjs';

const NAMES = ['short', 'keepalive', 'agent', 'blocked', 'reload', 'crash', 'takeover', 'own', 'command', 'events', 'scrape', 'memory', 'start', 'start-apps', 'spread', 'switch', 'apps', 'watch', 'logs', 'load', 'http2', 'latency', 'hung', 'scale', 'first', 'frameworks', 'frameworks-first', 'endurance'];
const IDLE_LOAD_MAX = 0.5;

const HELP = `usage: node bench/run.mjs <benchmark> [options]

  --rounds N    interleaved rounds, default 5 (what a record needs at least)
  --workers N   workers of each clustered arm, default 2
  --arms a,b    only these arms
  --baseline P  another build of forkful at path P beside this one, in turns: the arms forkful-auto and
                baseline-auto (for short, keepalive, blocked, logs and apps), with the ratio of the two
  --seed N      order of the arms, default from the clock; it is kept with the data
  --attempts N  how often a sample is measured that other work disturbs, default 3
  --kinds a,b   only these kinds of work of the scale benchmark, or apps of the frameworks benchmark
  --block-gap N pause in ms between two blocks of the blocked benchmark, default 50
  --quick       a smoke test: one short round, never for the record
  --list        benchmarks and arms, and which arms can run here
  --help        this

Raw data goes to bench/results/; \`node bench/table.mjs\` makes the tables of docs/BENCHMARKS.md from it.
`;

function readArguments() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '5' }, workers: { type: 'string', default: '2' }, arms: { type: 'string' }, kinds: { type: 'string' }, attempts: { type: 'string', default: '3' }, baseline: { type: 'string' },
      seed: { type: 'string' }, 'block-gap': { type: 'string', default: '50' }, quick: { type: 'boolean', default: false }, list: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const count = (name, most, least = 1) => {
    const value = Number(values[name]);
    if (!Number.isInteger(value) || value < least || value > most) throw new Error(`--${name} must be a whole number from ${least} to ${most}, not "${values[name]}"`);
    return value;
  };
  return {
    ...values,
    names: positionals,
    rounds: count('rounds', 100),
    attempts: count('attempts', 10),
    workers: count('workers', 64),
    blockGapMs: count('block-gap', 10_000, 0),
    arms: values.arms?.split(',') ?? (values.baseline === undefined ? undefined : ['forkful-auto', 'baseline-auto']),
    seed: values.seed === undefined ? Date.now() % 1_000_000 : Number(values.seed),
  };
}

async function list() {
  process.stdout.write('benchmarks:\n');
  for (const name of NAMES) process.stdout.write(`  ${name.padEnd(18)} ${(await import(`./benches/${name}.mjs`)).about}\n`);
  process.stdout.write('\narms:\n');
  for (const [name, arm] of Object.entries(ARMS)) {
    const missing = arm.missing();
    process.stdout.write(`  ${name.padEnd(18)} ${arm.about}${missing === null ? '' : `  [not here: ${missing}]`}\n`);
  }
}

async function runOne(name, options) {
  const benchmark = await import(`./benches/${name}.mjs`);
  const context = makeContext(name, benchmark, options);
  for (const [arm, reason] of Object.entries(context.absent)) context.log(`without ${arm}: ${reason}`);
  const [load] = os.loadavg();
  if (load > IDLE_LOAD_MAX) context.log(`warning: the load average is ${load.toFixed(2)}; this machine has other work, the numbers will show it`);
  const started = new Date();
  const interrupt = async () => {
    context.interrupted = true;
    await stopAll();
    if (context.samples.length > 0) context.log(`interrupted; what there is: ${record(context, started)}`);
    process.exit(130);
  };
  process.once('SIGINT', interrupt);
  process.once('SIGTERM', interrupt);
  await benchmark.run(context);
  const file = record(context, started);
  const beside = besideBaseline(context, benchmark.measures ?? {});
  for (const table of [...benchmark.tables({ ...context, machine: machine() }), ...(beside === null ? [] : [beside])]) process.stdout.write(`\n${markdown(table)}\n`);
  context.log(`\nraw data: ${file}`);
  process.removeAllListeners('SIGINT');
  process.removeAllListeners('SIGTERM');
}

async function main() {
  const options = readArguments();
  if (options.help) return void process.stdout.write(HELP);
  if (options.list) return list();
  if (options.names.length === 0) throw new Error(`which benchmark? one or more of: ${NAMES.join(', ')}, or all`);
  const names = options.names.includes('all') ? NAMES : options.names;
  if (options.baseline !== undefined) process.env.FORKFUL_BASELINE = options.baseline;
  const unknown = names.find((name) => !NAMES.includes(name));
  if (unknown !== undefined) throw new Error(`no benchmark "${unknown}"; there are: ${NAMES.join(', ')}, or all`);
  for (const name of names) await runOne(name, options);
}

main().catch(async (error) => {
  await stopAll();
  process.stderr.write(`error: ${error.message}\n`);
  process.exitCode = 1;
});
