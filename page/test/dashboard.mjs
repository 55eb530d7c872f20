// A real daemon with an app, and its dashboard in a real browser.
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { PATIENCE_MS } from './chromium.mjs';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');

/** The command: what `FORKFUL_BIN` names, or what cargo built in release. */
export const binary = process.env.FORKFUL_BIN ?? path.join(root, 'target/release/forkful');

/** What an app writes that would do harm as markup or in a terminal. */
export const HOSTILE = [
  '<img src=x onerror="window.harmed = 1"><script>window.harmed = 1</script>',
  '"><svg/onload=window.harmed=1> {{constructor.constructor("window.harmed=1")()}} javascript:window.harmed=1',
  '\u001b[31mred\u001b[0m \u001b]0;title\u0007 \u001b]8;;javascript:window.harmed=1\u001b\\link\u001b]8;;\u001b\\ \u001b[2J',
  'turned \u202etxt.exe\u2066 round',
];

/** Ends at `/crash`, stands still at `/block`, waits for a slow disk at `/read`, and writes what is hostile when it begins. */
const APP = `
const http = require('node:http');
const fs = require('node:fs');
let disk;
let reading = 0;
/** A FIFO that gives each thread of the pool a byte every 200 ms: seldom, so that a busy machine is not what limits the app. */
function slowDisk() {
  const file = process.env.SOCKET + '.' + process.pid;
  require('node:child_process').execFileSync('mkfifo', [file]);
  disk = fs.openSync(file, 'r+');
  fs.unlinkSync(file);
  setInterval(() => {
    const done = Math.min(reading, Number(process.env.UV_THREADPOOL_SIZE ?? 4));
    if (done > 0) fs.writeSync(disk, 'x'.repeat(done));
  }, 200);
}
function readDisk(done) {
  if (disk === undefined) slowDisk();
  reading += 1;
  fs.read(disk, Buffer.alloc(1), 0, 1, null, () => { reading -= 1; done(); });
}
function standStill() { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200); }
http.createServer((request, response) => {
  if (request.url === '/crash') { response.end('it ends'); setImmediate(() => { throw new Error('a planned crash'); }); return; }
  if (request.url === '/block') standStill();
  if (request.url === '/read') { readDisk(() => response.end('ok')); return; }
  response.end('ok');
}).listen(process.env.SOCKET, () => { for (const line of ${JSON.stringify(HOSTILE)}) console.log(line); console.error('a line of stderr'); });
`;

/** A daemon of its own with an app, in a folder of its own. */
export class Daemon {
  constructor() {
    this.folder = mkdtempSync(path.join(os.tmpdir(), 'forkful-dashboard-'));
    this.env = { ...process.env, FORKFUL_HOME: path.join(this.folder, 'home') };
    writeFileSync(path.join(this.folder, 'app.js'), APP);
  }

  forkful(...args) {
    return execFileSync(binary, args, { cwd: this.folder, env: this.env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: PATIENCE_MS });
  }

  /** The same while this process goes on; gives its code and what it printed. */
  run(...args) {
    return new Promise((resolve, reject) => {
      execFile(binary, args, { cwd: this.folder, env: this.env, encoding: 'utf8', timeout: PATIENCE_MS }, (error, stdout) => {
        if (error && typeof error.code !== 'number') reject(error);
        else resolve({ code: error ? error.code : 0, stdout });
      });
    });
  }

  start(name, instances) {
    const env = { ...this.env, SOCKET: path.join(this.folder, `${name}.sock`) };
    execFileSync(binary, ['start', 'app.js', '--name', name, '-i', String(instances), '--listen-timeout', '100s'], { cwd: this.folder, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: PATIENCE_MS });
  }

  /** Restarts an app as a deployment of a version. */
  deploy(name, version) {
    const env = { ...this.env, FORKFUL_DEPLOYMENT: version };
    execFileSync(binary, ['restart', name], { cwd: this.folder, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: PATIENCE_MS });
  }

  /** The status of a request to an app. Each request has a new connection, because a reload may close a kept connection just before its next request. */
  request(name, url) {
    return new Promise((resolve, reject) => {
      http.get({ socketPath: path.join(this.folder, `${name}.sock`), path: url, agent: false }, (response) => response.resume().on('end', () => resolve(response.statusCode)).on('error', reject))
        .on('error', reject);
    });
  }

  /** Sends requests, one after the other over some connections, until the returned function is called. */
  load(name, url, connections) {
    let isOver = false;
    const send = async () => { while (!isOver) await this.request(name, url); };
    const sent = Promise.all(Array.from({ length: connections }, send));
    return () => { isOver = true; return sent; };
  }

  /** The reply to a reload as a step of `doctor --fix`, asked of the daemon's API: `status` and `body`. */
  reload(name, fix) {
    const body = JSON.stringify({ targets: [name], wait: true, fix });
    return new Promise((resolve, reject) => {
      const options = { socketPath: path.join(this.env.FORKFUL_HOME, 'forkful.sock'), path: '/v1/actions/reload', method: 'POST', headers: { 'content-type': 'application/json' } };
      http.request(options, (response) => text(response).then((reply) => resolve({ status: response.statusCode, body: reply }), reject)).on('error', reject).end(body);
    });
  }

  link(...options) {
    return JSON.parse(this.forkful('dashboard', '--json', ...options)).url;
  }

  list() {
    return JSON.parse(this.forkful('list', '--json')).apps;
  }

  incidents(app) {
    return JSON.parse(this.forkful('events', app, '--json')).incidents;
  }

  /** Waits until something holds. */
  async until(holds) {
    for (const until = Date.now() + PATIENCE_MS; !holds();) {
      if (Date.now() > until) throw new Error(`does not come true: ${holds}`);
      await delay(50);
    }
  }

  close() {
    try {
      this.forkful('kill');
    } finally {
      rmSync(this.folder, { recursive: true, force: true });
    }
  }
}

/** Opens an address, and gathers what the page says in the console and asks of the network. */
export async function open(browser, url, { prepare, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const [said, foreign] = [[], []];
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(String(error)));
  page.on('request', (request) => {
    const { origin } = new URL(request.url());
    if (origin !== new URL(url).origin && !request.url().startsWith('data:')) foreign.push(request.url());
  });
  await prepare?.(page);
  await page.goto(url);
  return { page, context, said, foreign };
}
