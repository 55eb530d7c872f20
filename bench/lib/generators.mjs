// Measures the load generators: the same closed loop from each, and the CPU time of its process. Each report
// becomes the same few numbers; values that a tool does not report are null.

import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { ownCpuSeconds } from './proc.mjs';
import { BENCH, REPOSITORY } from './paths.mjs';
import { missingGenerator } from './load.mjs';

const RUN_MS_MAX = 120_000;
const EXAMPLES = process.env.FORKFUL_EXAMPLES ?? path.join(REPOSITORY, 'target/release/examples');
const SCALE_MS = { us: 0.001, ms: 1, s: 1000, m: 60_000 };

/** The example programs of the engine: `load`, the engine itself; `canned`, a server of fixed bytes; `floor`, one send and one recv a request. */
export const example = (name) => path.join(EXAMPLES, name);

const missingExample = (name) => (existsSync(example(name)) ? null : `${example(name)} is missing: cargo build --release -p forkful-load --examples`);
const missingPackage = (name) => (existsSync(path.join(BENCH, 'node_modules', name)) ? null : 'run `npm ci` in bench');

/** Runs a program to its end; its text, and the CPU seconds of it and what it started. */
export function timed(file, args, codes = [0]) {
  return new Promise((resolve, reject) => {
    const before = ownCpuSeconds();
    const own = process.cpuUsage();
    const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'], timeout: RUN_MS_MAX });
    let text = '';
    child.stdout.on('data', (piece) => { text += piece; });
    child.stderr.on('data', (piece) => { text += piece; });
    child.on('error', reject);
    child.on('close', (code) => {
      const used = process.cpuUsage(own);
      // The child was reaped, so its time is part of this process's time; the time of this process itself is subtracted.
      const cpuSeconds = ownCpuSeconds() - before - (used.user + used.system) / 1e6;
      if (codes.includes(code)) resolve({ text, cpuSeconds });
      else reject(new Error(`${path.basename(file)} ended with ${code}: ${text.slice(-500)}`));
    });
  });
}

function wrkTime(text, label) {
  const match = new RegExp(`^ +${label} +([\\d.]+)(us|ms|s|m)$`, 'm').exec(text);
  return match === null ? null : Number(match[1]) * SCALE_MS[match[2]];
}

/** @type {Record<string, {about: string, missing: () => string | null, pipelines: boolean, run: (load: {url: string, connections: number, seconds: number, pipelining?: number}) => Promise<object>}>} */
export const GENERATORS = {
  forkful: {
    about: 'our engine, one thread',
    missing: () => missingExample('load'),
    pipelines: true,
    async run({ url, connections, seconds, pipelining = 1 }) {
      const { text, cpuSeconds } = await timed(example('load'), [url, String(connections), String(seconds), '1', String(pipelining)]);
      const report = JSON.parse(text.split('\n')[0]);
      return { requests: report.requests, seconds: report.seconds, cpuSeconds, errors: report.errors, p50Ms: report.p50_ms, p99Ms: report.p99_ms, memoryBytes: report.memory_bytes };
    },
  },
  wrk: {
    about: 'wrk -t1',
    missing: () => missingGenerator('wrk'),
    pipelines: true,
    async run({ url, connections, seconds, pipelining = 1 }) {
      const script = pipelining > 1 ? ['-s', path.join(BENCH, 'lib/pipeline.lua')] : [];
      const of = pipelining > 1 ? ['--', String(pipelining)] : [];
      const { text, cpuSeconds } = await timed('wrk', ['--latency', '-t1', `-c${connections}`, `-d${seconds}s`, ...script, url, ...of]);
      const [, requests = 0, elapsed = 0, unit = 's'] = /(\d+) requests in ([\d.]+)(us|ms|s|m),/.exec(text) ?? [];
      const socket = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(text)?.slice(1) ?? [];
      return {
        requests: Number(requests), seconds: (Number(elapsed) * SCALE_MS[unit]) / 1000, cpuSeconds,
        errors: socket.reduce((sum, count) => sum + Number(count), 0), p50Ms: wrkTime(text, '50%'), p99Ms: wrkTime(text, '99%'),
      };
    },
  },
  autocannon: {
    about: 'autocannon, its defaults',
    missing: () => missingPackage('autocannon'),
    pipelines: true,
    async run({ url, connections, seconds, pipelining = 1 }) {
      const script = path.join(BENCH, 'node_modules/autocannon/autocannon.js');
      const { text, cpuSeconds } = await timed(process.execPath, [script, '-j', '-n', '-c', String(connections), '-d', String(seconds), '-p', String(pipelining), url]);
      const report = JSON.parse(text.slice(text.indexOf('{"')));
      return {
        requests: report.requests.total, seconds: report.duration, cpuSeconds, errors: report.errors + report.timeouts,
        p50Ms: report.latency.p50, p99Ms: report.latency.p99,
      };
    },
  },
  loadtest: {
    about: 'loadtest -k on one core',
    missing: () => missingPackage('loadtest'),
    pipelines: false,
    async run({ url, connections, seconds }) {
      const script = path.join(BENCH, 'node_modules/loadtest/bin/loadtest.js');
      const { text, cpuSeconds } = await timed(process.execPath, [script, '-k', '--cores', '1', '-c', String(connections), '-t', String(seconds), url]);
      const number = (pattern) => Number(pattern.exec(text)?.[1] ?? NaN);
      return {
        requests: number(/Completed requests: +(\d+)/), seconds: number(/Total time: +([\d.]+)/), cpuSeconds, errors: number(/Total errors: +(\d+)/),
        p50Ms: number(/50% +(\d+) ms/), p99Ms: number(/99% +(\d+) ms/),
      };
    },
  },
  floor: {
    about: 'one recv and one send a request and nothing else: less is not possible',
    missing: () => missingExample('floor'),
    pipelines: false,
    async run({ url, connections, seconds }) {
      const { text, cpuSeconds } = await timed(example('floor'), [url, String(connections), String(seconds)]);
      const report = JSON.parse(text);
      return { requests: report.requests, seconds: report.seconds, cpuSeconds, errors: 0, p50Ms: null, p99Ms: null };
    },
  },
};
