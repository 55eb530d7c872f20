// Runs the load generators ab and wrk and reads their reports. Loopback only, always bounded.

import { execFile, execFileSync } from 'node:child_process';

const GENERATOR_MS_MAX = 120_000;

/** Why the generator cannot be used, or null. */
/** Debian's packages of the generators that have another name. */
const PACKAGES = { ab: 'apache2-utils', h2load: 'nghttp2-client' };

export function missingGenerator(name) {
  try {
    execFileSync('which', [name], { stdio: 'ignore' });
    return null;
  } catch {
    return `${name} is not installed (Debian: apt install ${PACKAGES[name] ?? name})`;
  }
}

function run(file, args) {
  return new Promise((resolve) => {
    execFile(file, args, { timeout: GENERATOR_MS_MAX, maxBuffer: 16 << 20 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : (error.code ?? 1), text: stdout, stderr });
    });
  });
}

const number = (text, pattern) => Number(pattern.exec(text)?.[1] ?? 0);

/**
 * `ab -c C -n N`: a connection per request, HTTP/1.0, closed loop.
 * @returns {Promise<{requests: number, seconds: number, errors: Record<string, number>, report?: string}>}
 */
export async function ab({ host, port, path, requests, connections }) {
  const args = ['-q', '-l', '-r', '-n', String(requests), '-c', String(connections), `http://${host}:${port}${path}`];
  const { code, text, stderr } = await run('ab', args);
  const errors = {
    connect: number(text, /Connect: (\d+)/), receive: number(text, /Receive: (\d+)/), exceptions: number(text, /Exceptions: (\d+)/),
    write: number(text, /Write errors: +(\d+)/), status: number(text, /Non-2xx responses: +(\d+)/), aborted: code === 0 ? 0 : 1,
  };
  const complete = number(text, /Complete requests: +(\d+)/);
  return {
    requests: complete, seconds: number(text, /Time taken for tests: +([\d.]+)/), errors,
    ...(code === 0 ? {} : { report: `${text}${stderr}`.slice(-1000) }),
  };
}

const SCALE_MS = { us: 0.001, ms: 1, s: 1000, m: 60_000 };
function wrkTimeMs(text, label) {
  const match = new RegExp(`^ +${label} +([\\d.]+)(us|ms|s|m)$`, 'm').exec(text);
  return match === null ? null : Number(match[1]) * SCALE_MS[match[2]];
}

/** `wrk`: closed loop over `connections`; with `close`, a connection per request. Its percentiles are service times under saturation. */
export async function wrk({ host, port, path, seconds, connections, threads = 1, close = false }) {
  const args = ['--latency', '-t', String(threads), '-c', String(connections), '-d', `${seconds}s`];
  if (close) args.push('-H', 'Connection: close');
  const { code, text, stderr } = await run('wrk', [...args, `http://${host}:${port}${path}`]);
  const [, requests = 0, elapsed = 0, unit = 's'] = /(\d+) requests in ([\d.]+)(us|ms|s|m),/.exec(text) ?? [];
  const socket = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(text) ?? [0, 0, 0, 0, 0];
  return {
    requests: Number(requests),
    seconds: (Number(elapsed) * SCALE_MS[unit]) / 1000,
    errors: {
      connect: Number(socket[1]), read: Number(socket[2]), write: Number(socket[3]), timeout: Number(socket[4]),
      status: number(text, /Non-2xx or 3xx responses: (\d+)/), aborted: code === 0 ? 0 : 1,
    },
    p50Ms: wrkTimeMs(text, '50%'),
    p99Ms: wrkTimeMs(text, '99%'),
    ...(code === 0 ? {} : { report: `${text}${stderr}`.slice(-1000) }),
  };
}

/** All errors of a report together. */
export const errorCount = (errors) => Object.values(errors).reduce((sum, count) => sum + count, 0);
